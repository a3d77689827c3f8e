//! The same relations for DataFusion: catalogs that make a table when a statement names it.
//!
//! Invariant: a table holds no snapshot of its data. Topics and system tables read the one that the
//! statement carries in its session configuration, so a plan can be run again at a later one.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, MemTable, SchemaProvider, TableProvider};
use datafusion::common::Result;
use strandline_sql::{Relations, catalog_table};
use strandline_storage::log::Topic;
use strandline_storage::table::{TopicTable, TopicTableOptions};

use super::relations::StatementRelations;
use super::system_tables::{SystemTable, SystemTableProvider};
use super::{DATABASE, INTERNAL_SCHEMA, PUBLIC_SCHEMA, SYSTEM_SCHEMA};

/// Schemas of the sql crate's catalogs.
const CATALOG_SCHEMAS: [&str; 2] = ["pg_catalog", "information_schema"];

/// The catalogs of one statement.
#[derive(Clone, Debug)]
pub struct StatementCatalogs {
    relations: Arc<StatementRelations>,
}

impl StatementCatalogs {
    pub fn new(relations: Arc<StatementRelations>) -> Self {
        Self { relations }
    }
}

impl CatalogProviderList for StatementCatalogs {
    fn register_catalog(
        &self,
        _name: String,
        _catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![DATABASE.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let is_known = super::DATABASE_NAMES.contains(&name);
        is_known.then(|| Arc::new(self.clone()) as Arc<dyn CatalogProvider>)
    }
}

impl CatalogProvider for StatementCatalogs {
    fn schema_names(&self) -> Vec<String> {
        let own = [PUBLIC_SCHEMA, INTERNAL_SCHEMA, SYSTEM_SCHEMA];
        own.iter().chain(&CATALOG_SCHEMAS).map(|name| (*name).to_owned()).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let is_known = self.schema_names().iter().any(|known| known == name);
        is_known.then(|| {
            let relations = self.relations.clone();
            Arc::new(StatementSchema { name: name.to_owned(), relations }) as Arc<dyn SchemaProvider>
        })
    }
}

/// One schema of one statement.
#[derive(Debug)]
struct StatementSchema {
    name: String,
    relations: Arc<StatementRelations>,
}

impl StatementSchema {
    fn provider(&self, table: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.name == SYSTEM_SCHEMA {
            let table = SystemTable::named(table);
            return Ok(table.map(|table| Arc::new(SystemTableProvider::new(table)) as Arc<dyn TableProvider>));
        }
        if CATALOG_SCHEMAS.contains(&self.name.as_str()) {
            return self.catalog_provider(&self.name, table);
        }
        if let Some(topic) = self.relations.topic(&self.name, table) {
            return Ok(Some(self.topic_provider(topic)));
        }
        // As on Postgres' search path, a name that is no topic may be one of pg_catalog.
        self.catalog_provider("pg_catalog", table)
    }

    fn topic_provider(&self, topic: &Arc<Topic>) -> Arc<dyn TableProvider> {
        let columns = self.relations.topic_columns(topic);
        Arc::new(TopicTable::new(TopicTableOptions {
            topic: topic.clone(),
            key_format: columns.key_format,
            value_format: columns.value_format,
            decoder: columns.decoder.clone(),
        }))
    }

    fn catalog_provider(&self, schema: &str, table: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(batch) = catalog_table(self.relations.as_ref(), schema, table) else { return Ok(None) };
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
        Ok(Some(Arc::new(table)))
    }
}

#[async_trait]
impl SchemaProvider for StatementSchema {
    fn table_names(&self) -> Vec<String> {
        let relations = self.relations.relations();
        relations.into_iter().filter(|relation| relation.schema == self.name).map(|it| it.name).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.provider(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.provider(name).is_ok_and(|provider| provider.is_some())
    }
}
