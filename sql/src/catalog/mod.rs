//! The system catalogs, `pg_catalog` and `information_schema`, as Arrow batches made from the
//! relations of a snapshot.

use datafusion::arrow::record_batch::RecordBatch;

use crate::relations::Relations;

/// One table of the system catalogs, filled.
#[derive(Debug, Clone)]
pub struct CatalogTable {
    /// `pg_catalog` or `information_schema`.
    pub schema: &'static str,
    pub name: &'static str,
    pub batch: RecordBatch,
}

/// One table of the system catalogs, or `None` when there is no such table.
pub fn catalog_table(_relations: &dyn Relations, _schema: &str, _name: &str) -> Option<RecordBatch> {
    None
}

/// Every table of the system catalogs.
pub fn catalog_tables(_relations: &dyn Relations) -> Vec<CatalogTable> {
    Vec::new()
}
