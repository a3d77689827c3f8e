//! Whether the server is ready, and if not, why: what `/readyz` answers.

use std::sync::{Arc, Mutex};

use strandline_storage::log::{Health, Log};

/// Shared between start-up, which tells, and HTTP, which asks.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Opening,
    Serving(Log),
    Draining,
}

impl Readiness {
    pub fn serving(&self, log: Log) {
        self.set(State::Serving(log));
    }

    pub fn draining(&self) {
        self.set(State::Draining);
    }

    fn set(&self, state: State) {
        *self.0.lock().expect("no holder of the lock panics") = state;
    }

    /// Ok when it serves, or the reason why it does not.
    pub fn check(&self) -> Result<(), String> {
        match &*self.0.lock().expect("no holder of the lock panics") {
            State::Opening => Err("opening the log".to_owned()),
            State::Draining => Err("draining: the server is about to stop".to_owned()),
            State::Serving(log) => match log.health() {
                Health::Serving => Ok(()),
                other => Err(other.to_string()),
            },
        }
    }

    /// The log, once it is open.
    pub fn log(&self) -> Option<Log> {
        match &*self.0.lock().expect("no holder of the lock panics") {
            State::Serving(log) => Some(log.clone()),
            State::Opening | State::Draining => None,
        }
    }
}
