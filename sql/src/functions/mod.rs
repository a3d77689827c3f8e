//! The functions that PostgreSQL has and DataFusion lacks or answers differently.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;

use crate::relations::Relations;
use crate::statement::SetScope;

/// The settings of a session, for `current_setting` and `set_config`.
pub trait Settings: Debug + Send + Sync {
    /// The value of a setting; the name is in lower case.
    fn setting(&self, name: &str) -> Option<String>;
    /// Sets a setting and answers its new value.
    ///
    /// # Errors
    /// The sentence that says why not.
    fn set(&self, name: &str, value: &str, scope: SetScope) -> Result<String, String>;
}

/// What the functions know about their session.
#[derive(Clone)]
pub struct FunctionContext {
    /// What `version()` answers.
    pub version: String,
    pub database: String,
    pub user: String,
    /// What `pg_backend_pid()` answers.
    pub process_id: i32,
    pub settings: Arc<dyn Settings>,
    /// For the functions that turn names into object identifiers and back.
    pub relations: Arc<dyn Relations>,
}

/// Adds every function to a session's registry; those that DataFusion has under the same name are
/// replaced.
///
/// # Errors
/// When the registry does not take a function.
pub fn register_functions(_registry: &mut dyn FunctionRegistry, _context: &FunctionContext) -> Result<()> {
    Ok(())
}
