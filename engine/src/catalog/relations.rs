//! The relations of one statement, described for the sql crate.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::arrow::datatypes::{Field, FieldRef};
use strandline_sql::{PgType, Relation, RelationColumn, RelationKind, Relations};
use strandline_storage::ids::TopicId;
use strandline_storage::log::{Snapshot, Topic};
use strandline_storage::table::{ColumnFormat, SystemColumn, system_columns};

use crate::decode::column_type::TYPE_METADATA_KEY;
use crate::infer::{ColumnSource, TopicColumns};
use crate::permissions::Grants;

use super::oid::relation_oid;
use super::system_tables::SystemTable;
use super::{PUBLIC_SCHEMA, SYSTEM_SCHEMA, schema_of_topic};

/// Columns by topic, as one statement saw them.
pub type KnownColumns = HashMap<TopicId, Arc<TopicColumns>>;

/// Who a statement is run for.
#[derive(Clone, Debug)]
pub struct Asker {
    pub database: String,
    pub user: String,
    pub grants: Grants,
}

/// Topics and system tables at one snapshot, as far as the asker may know of them.
pub struct StatementRelations {
    pub snapshot: Snapshot,
    asker: Asker,
    source: Arc<ColumnSource>,
    /// What was looked up so far, so that the next look-up answers the same.
    known: Mutex<KnownColumns>,
}

impl fmt::Debug for StatementRelations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementRelations").field("database", &self.asker.database).finish_non_exhaustive()
    }
}

impl StatementRelations {
    /// `kept` are columns that a prepared statement holds on to.
    pub fn new(snapshot: Snapshot, source: Arc<ColumnSource>, asker: Asker, kept: KnownColumns) -> Self {
        Self { snapshot, asker, source, known: Mutex::new(kept) }
    }

    /// The payload columns of a topic.
    pub fn topic_columns(&self, topic: &Topic) -> Arc<TopicColumns> {
        let mut known = self.known.lock().expect("no holder of the lock panics");
        known.entry(topic.id).or_insert_with(|| self.source.columns(&self.snapshot, topic)).clone()
    }

    /// Every topic's columns that were looked up.
    pub fn known_columns(&self) -> KnownColumns {
        self.known.lock().expect("no holder of the lock panics").clone()
    }

    /// What the statement may do.
    pub fn grants(&self) -> &Grants {
        &self.asker.grants
    }

    /// The topics that are there for the asker.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.snapshot.topics().filter(|topic| self.asker.grants.shows_topic(&topic.name))
    }

    /// The topic of this name in this schema.
    pub fn topic(&self, schema: &str, name: &str) -> Option<&Arc<Topic>> {
        let topic = self.snapshot.topic(name).filter(|topic| schema_of_topic(&topic.name) == schema);
        topic.filter(|topic| self.asker.grants.shows_topic(&topic.name))
    }

    fn topic_relation(&self, topic: &Topic) -> Relation {
        let payload = self.topic_columns(topic);
        let mut columns = system_relation_columns(&payload);
        if let Some(decoder) = &payload.decoder {
            columns.extend(decoder.fields().iter().map(|field| relation_column(field, InStar::Yes)));
        }
        let schema = schema_of_topic(&topic.name);
        Relation {
            schema: schema.to_owned(),
            name: topic.name.clone(),
            oid: relation_oid(schema, &topic.name),
            kind: RelationKind::Topic,
            columns,
        }
    }
}

impl Relations for StatementRelations {
    fn relation(&self, schema: Option<&str>, name: &str) -> Option<Relation> {
        match schema.unwrap_or(PUBLIC_SCHEMA) {
            SYSTEM_SCHEMA => SystemTable::named(name).map(system_relation),
            schema => self.topic(schema, name).map(|topic| self.topic_relation(topic)),
        }
    }

    fn relations(&self) -> Vec<Relation> {
        let topics = self.topics().map(|topic| self.topic_relation(topic));
        topics.chain(SystemTable::ALL.map(system_relation)).collect()
    }

    fn database(&self) -> &str {
        &self.asker.database
    }

    fn user(&self) -> &str {
        &self.asker.user
    }
}

/// Whether `*` shows a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InStar {
    Yes,
    No,
}

fn system_relation_columns(payload: &TopicColumns) -> Vec<RelationColumn> {
    let shows_value = payload.value_format != ColumnFormat::Json;
    let fields = system_columns(payload.key_format, payload.value_format);
    let in_star = |column: SystemColumn| match column {
        SystemColumn::Timestamp | SystemColumn::Partition | SystemColumn::Offset | SystemColumn::Key => {
            InStar::Yes
        }
        SystemColumn::Value if shows_value => InStar::Yes,
        _ => InStar::No,
    };
    SystemColumn::ALL
        .iter()
        .zip(&fields)
        .map(|(column, field)| relation_column(field, in_star(*column)))
        .collect()
}

fn system_relation(table: SystemTable) -> Relation {
    let schema = table.schema();
    Relation {
        schema: SYSTEM_SCHEMA.to_owned(),
        name: table.name().to_owned(),
        oid: relation_oid(SYSTEM_SCHEMA, table.name()),
        kind: RelationKind::System,
        columns: schema.fields().iter().map(|field| relation_column(field, InStar::Yes)).collect(),
    }
}

fn relation_column(field: &FieldRef, in_star: InStar) -> RelationColumn {
    RelationColumn {
        name: field.name().clone(),
        arrow_type: field.data_type().clone(),
        pg_type: pg_type(field),
        nullable: field.is_nullable(),
        in_star: in_star == InStar::Yes,
    }
}

/// What Postgres clients see a field as. Headers are a list of structs here and JSON to them.
pub fn pg_type(field: &Field) -> PgType {
    match field.metadata().get(TYPE_METADATA_KEY).map(String::as_str) {
        Some("headers") => PgType::Json,
        _ => PgType::of_field(field),
    }
}
