//! The session that the tests run on: a few topics with a few records.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, StringViewArray, TimestampMicrosecondArray,
    TimestampMillisecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::catalog::{MemTable, MemoryCatalogProvider, MemorySchemaProvider, SchemaProvider};
use datafusion::common::ScalarValue;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as PlannerStatement;
use strandline_sql::{
    FunctionContext, PgType, Relation, RelationColumn, RelationKind, Relations, Rewritten, SessionInfo,
    SetScope, Settings, SqlError, Statement, catalog_table, parse, register_functions, rewrite,
};

/// 2015-09-13 10:00 UTC.
pub const NOW_US: i64 = 1_442_138_400_000_000;

/// What a query answered: the names of the columns and every value as text.
#[derive(Debug, PartialEq)]
pub struct Answer {
    pub names: Vec<String>,
    pub rows: Vec<Vec<String>>,
    pub types: Vec<PgType>,
}

impl Answer {
    /// The values of the only column.
    pub fn column(self) -> Vec<String> {
        self.rows.into_iter().map(|mut row| row.swap_remove(0)).collect()
    }

    /// The only value.
    pub fn value(self) -> String {
        assert_eq!((self.rows.len(), self.names.len()), (1, 1), "{self:?}");
        self.column().swap_remove(0)
    }
}

/// The relations of the tests.
#[derive(Debug)]
pub struct Topics {
    relations: Vec<(Relation, RecordBatch)>,
}

impl Relations for Topics {
    fn relation(&self, schema: Option<&str>, name: &str) -> Option<Relation> {
        let schema = schema.unwrap_or("public");
        let mut all = self.relations.iter().map(|(relation, _)| relation);
        all.find(|relation| relation.schema == schema && relation.name == name).cloned()
    }

    fn relations(&self) -> Vec<Relation> {
        self.relations.iter().map(|(relation, _)| relation.clone()).collect()
    }

    fn database(&self) -> &str {
        "strandline"
    }

    fn user(&self) -> &str {
        "tester"
    }
}

#[derive(Debug, Default)]
struct Memory(Mutex<HashMap<String, String>>);

impl Settings for Memory {
    fn setting(&self, name: &str) -> Option<String> {
        match name {
            "server_version_num" => Some("160006".to_owned()),
            "search_path" => Some("public".to_owned()),
            "default_table_access_method" => Some("heap".to_owned()),
            other => self.0.lock().unwrap().get(other).cloned(),
        }
    }

    fn set(&self, name: &str, value: &str, _scope: SetScope) -> Result<String, String> {
        self.0.lock().unwrap().insert(name.to_owned(), value.to_owned());
        Ok(value.to_owned())
    }
}

fn ms(text: &str) -> i64 {
    text.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_millis()
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringViewArray::from(values.to_vec()))
}

/// The columns that every topic has, and which of them `*` shows.
fn system_columns(times: &[i64]) -> Vec<(Field, ArrayRef, bool)> {
    let rows = times.len();
    let numbers = 0..i64::try_from(rows).unwrap();
    let instant = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let ts = TimestampMillisecondArray::from(times.to_vec()).with_timezone("UTC");
    let keys: Vec<&str> = vec!["k"; rows];
    let values: Vec<&str> = vec!["{}"; rows];
    vec![
        (Field::new("ts", instant, true), Arc::new(ts), true),
        (Field::new("_partition", DataType::Int32, false), Arc::new(Int32Array::from(vec![0; rows])), true),
        (
            Field::new("_offset", DataType::Int64, false),
            Arc::new(Int64Array::from_iter_values(numbers)),
            true,
        ),
        (Field::new("_key", DataType::Utf8View, true), texts(&keys), true),
        (Field::new("_value", DataType::Utf8View, true), texts(&values), false),
    ]
}

fn topic(name: &str, oid: u32, times: &[i64], payload: Vec<(Field, ArrayRef)>) -> (Relation, RecordBatch) {
    let mut columns = system_columns(times);
    columns.extend(payload.into_iter().map(|(field, array)| (field, array, true)));
    let relation = Relation {
        schema: "public".to_owned(),
        name: name.to_owned(),
        oid,
        kind: RelationKind::Topic,
        columns: columns
            .iter()
            .map(|(field, _, in_star)| RelationColumn {
                name: field.name().clone(),
                arrow_type: field.data_type().clone(),
                pg_type: PgType::of_field(field),
                nullable: field.is_nullable(),
                in_star: *in_star,
            })
            .collect(),
    };
    let schema = Schema::new(columns.iter().map(|(field, ..)| field.clone()).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array, _)| array).collect();
    (relation, RecordBatch::try_new(Arc::new(schema), arrays).unwrap())
}

fn wikiticker() -> (Relation, RecordBatch) {
    let times: Vec<i64> = [
        "2015-09-12T11:59:59.999Z",
        "2015-09-12T12:00:00.000Z",
        "2015-09-12T12:00:00.001Z",
        "2015-09-12T13:30:00.000Z",
        "2015-09-13T00:00:00.000Z",
    ]
    .iter()
    .map(|text| ms(text))
    .collect();
    let seen: Vec<i64> = times.iter().map(|time| time * 1000 + 250).collect();
    let micros = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    topic(
        "wikiticker",
        20_001,
        &times,
        vec![
            (Field::new("channel", DataType::Utf8View, true), texts(&["#en", "#de", "#en", "#fr", "#en"])),
            (
                Field::new("added", DataType::Int64, true),
                Arc::new(Int64Array::from(vec![Some(10), Some(20), None, Some(-5), Some(7)])),
            ),
            (
                Field::new("ratio", DataType::Float64, true),
                Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5, -1.5, 3.0])),
            ),
            (
                Field::new("seen", micros, true),
                Arc::new(TimestampMicrosecondArray::from(seen).with_timezone("UTC")),
            ),
        ],
    )
}

/// A topic with one record, whose payload columns are text that holds their own names.
fn text_topic(name: &str, oid: u32, columns: &[&str]) -> (Relation, RecordBatch) {
    let payload = columns
        .iter()
        .map(|column| (Field::new(*column, DataType::Utf8View, true), texts(&[column])))
        .collect();
    topic(name, oid, &[0], payload)
}

/// The session of one test.
pub struct Session {
    pub topics: Arc<Topics>,
    context: SessionContext,
    info: SessionInfo,
}

impl Session {
    pub fn new() -> Self {
        Self::in_zone("UTC")
    }

    pub fn in_zone(zone: &str) -> Self {
        let mut hidden = text_topic("__consumer_offsets", 20_008, &["group"]);
        hidden.0.schema = "internal".to_owned();
        let mut system = text_topic("topics", 20_009, &["name"]);
        (system.0.schema, system.0.kind) = ("strandline".to_owned(), RelationKind::System);
        let relations = vec![
            wikiticker(),
            text_topic("Orders", 20_002, &["upper"]),
            text_topic("orders", 20_003, &["lower"]),
            text_topic("a.b.c", 20_004, &["hg.nginx.org", "1xx", "$type", "select"]),
            text_topic("frog-hops", 20_005, &["x"]),
            text_topic("cases", 20_006, &["A", "B", "b", "userId", "nameX", "NAMEX", "é", "É"]),
            text_topic("Mixed", 20_007, &["ts2"]),
            hidden,
            system,
        ];
        let topics = Arc::new(Topics { relations });
        let mut config = SessionConfig::new().with_default_catalog_and_schema("strandline", "public");
        config.options_mut().sql_parser.dialect = "postgres".parse().unwrap();
        config.options_mut().sql_parser.parse_float_as_decimal = true;
        config.options_mut().execution.time_zone = Some(zone.to_owned());
        let mut context = SessionContext::new_with_config(config);
        let catalog = MemoryCatalogProvider::new();
        for schema in ["public", "strandline", "internal", "pg_catalog", "information_schema"] {
            let provider = MemorySchemaProvider::new();
            for (relation, batch) in topics.relations.iter().filter(|(relation, _)| relation.schema == schema)
            {
                provider.register_table(relation.name.clone(), table(batch)).unwrap();
            }
            use datafusion::catalog::CatalogProvider;
            catalog.register_schema(schema, Arc::new(provider)).unwrap();
        }
        context.register_catalog("strandline", Arc::new(catalog));
        let functions = FunctionContext {
            version: "PostgreSQL 16.6 (Strandline)".to_owned(),
            database: "strandline".to_owned(),
            user: "tester".to_owned(),
            process_id: 42,
            settings: Arc::new(Memory::default()),
            relations: Arc::clone(&topics) as Arc<dyn Relations>,
        };
        register_functions(&mut context, &functions).unwrap();
        let info = SessionInfo { time_zone: zone.to_owned(), now_us: NOW_US };
        Self { topics, context, info }
    }

    pub fn rewrite(&self, sql: &str) -> Result<Rewritten, SqlError> {
        let mut parsed = parse(sql)?;
        assert_eq!(parsed.len(), 1, "{sql}");
        match parsed.remove(0).statement {
            Statement::Query(query) => rewrite(*query, self.topics.as_ref(), &self.info),
            other => panic!("{sql} is no query but {other:?}"),
        }
    }

    /// The plan of a query after the optimizer.
    pub async fn plan(&self, sql: &str) -> String {
        let statement = PlannerStatement::Statement(Box::new(self.rewrite(sql).unwrap().statement));
        let state = self.context.state();
        let plan = state.statement_to_plan(statement).await.unwrap();
        state.optimize(&plan).unwrap().display_indent().to_string()
    }

    /// The refusal of a statement that must not be rewritten.
    pub fn refusal(&self, sql: &str) -> SqlError {
        match self.rewrite(sql) {
            Ok(rewritten) => panic!("{sql} became {}", rewritten.statement),
            Err(error) => error,
        }
    }

    pub async fn run(&self, sql: &str) -> Answer {
        self.run_with(sql, Vec::new()).await
    }

    pub async fn run_with(&self, sql: &str, parameters: Vec<ScalarValue>) -> Answer {
        match self.try_run(sql, parameters).await {
            Ok(answer) => answer,
            Err(error) => panic!("{sql}\n{error}"),
        }
    }

    pub async fn try_run(&self, sql: &str, parameters: Vec<ScalarValue>) -> Result<Answer, String> {
        let rewritten = self.rewrite(sql).map_err(|error| format!("{error} ({:?})", error.hint))?;
        let catalog = self.context.catalog("strandline").unwrap();
        for (schema, name) in &rewritten.catalog_tables {
            let batch = catalog_table(self.topics.as_ref(), schema, name).unwrap();
            let schema = catalog.schema(schema).unwrap();
            schema.deregister_table(name).unwrap();
            schema.register_table((*name).to_owned(), table(&batch)).unwrap();
        }
        let shown = rewritten.statement.to_string();
        let failed = |error: datafusion::error::DataFusionError| format!("{shown}\n{error}");
        let statement = PlannerStatement::Statement(Box::new(rewritten.statement));
        let plan = self.context.state().statement_to_plan(statement).await.map_err(failed)?;
        let plan =
            if parameters.is_empty() { plan } else { plan.with_param_values(parameters).map_err(failed)? };
        let frame = self.context.execute_logical_plan(plan).await.map_err(failed)?;
        let types = frame.schema().fields().iter().map(|field| PgType::of_field(field)).collect();
        let batches = frame.collect().await.map_err(failed)?;
        let rows = batches.iter().flat_map(rows).collect();
        let names = rewritten.output_names;
        Ok(Answer { names, rows, types })
    }
}

fn table(batch: &RecordBatch) -> Arc<MemTable> {
    Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch.clone()]]).unwrap())
}

fn rows(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<ArrayFormatter> =
        batch.columns().iter().map(|array| ArrayFormatter::try_new(array, &options).unwrap()).collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect())
        .collect()
}
