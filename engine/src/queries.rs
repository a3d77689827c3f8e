//! The statements that run now.
//!
//! Invariant: a statement is listed from its start until its stream has ended or was dropped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Characters of a statement's text that are kept while it runs.
const TEXT_CHARS_MAX: usize = 4_096;

/// Who runs what since when.
#[derive(Clone, Debug)]
pub struct QueryDescription {
    pub process_id: i32,
    pub user: String,
    pub application_name: String,
    pub text: String,
    pub started_at_ms: i64,
}

/// One running statement.
#[derive(Debug)]
struct RunningQuery {
    description: QueryDescription,
    rows: AtomicU64,
}

/// One row of `strandline.queries`.
#[derive(Debug)]
pub struct QueryRow {
    pub id: u64,
    pub description: QueryDescription,
    pub rows: u64,
}

/// All running statements of an engine.
#[derive(Debug, Default)]
pub struct RunningQueries {
    next_id: AtomicU64,
    running: Mutex<BTreeMap<u64, Arc<RunningQuery>>>,
}

impl RunningQueries {
    pub fn start(self: &Arc<Self>, mut description: QueryDescription) -> QueryEntry {
        if let Some((end, _)) = description.text.char_indices().nth(TEXT_CHARS_MAX) {
            description.text.truncate(end);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let query = Arc::new(RunningQuery { description, rows: AtomicU64::new(0) });
        self.running.lock().expect("no holder of the lock panics").insert(id, query.clone());
        QueryEntry { id, query, registry: self.clone() }
    }

    pub fn list(&self) -> Vec<QueryRow> {
        let running = self.running.lock().expect("no holder of the lock panics");
        let row = |(id, query): (&u64, &Arc<RunningQuery>)| QueryRow {
            id: *id,
            description: query.description.clone(),
            rows: query.rows.load(Ordering::Relaxed),
        };
        running.iter().map(row).collect()
    }
}

/// Keeps a statement listed.
#[derive(Debug)]
pub struct QueryEntry {
    id: u64,
    query: Arc<RunningQuery>,
    registry: Arc<RunningQueries>,
}

impl QueryEntry {
    pub fn description(&self) -> &QueryDescription {
        &self.query.description
    }

    pub fn add_rows(&self, rows: usize) {
        self.query.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub fn rows(&self) -> u64 {
        self.query.rows.load(Ordering::Relaxed)
    }
}

impl Drop for QueryEntry {
    fn drop(&mut self) {
        self.registry.running.lock().expect("no holder of the lock panics").remove(&self.id);
    }
}
