//! The one way in for time and randomness, so that a seeded simulation can drive the whole log.
//!
//! Invariant: no other file of the workspace reads a clock, sleeps or draws random numbers.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use rand::rngs::{OsRng, StdRng};
use rand::{RngCore, SeedableRng, TryRngCore};

/// Wall-clock time, monotonic time and sleep.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64;
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Where random bytes come from: ids and nonces.
pub trait Rng: Send + Sync + fmt::Debug {
    fn fill(&self, bytes: &mut [u8]);

    /// Sixteen random bytes: a topic id, a nonce.
    fn bytes16(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        bytes
    }
}

/// What happens at named places of the log, so that a test can stop a process exactly there.
pub trait Failpoints: Send + Sync + fmt::Debug {
    fn reach(&self, name: &str);
}

/// The clock and the source of randomness that a log is opened with.
#[derive(Clone, Debug)]
pub struct Seams {
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
    /// `None` outside of tests.
    pub failpoints: Option<Arc<dyn Failpoints>>,
}

impl Seams {
    /// The machine's clock and the operating system's randomness.
    pub fn system() -> Self {
        Self { clock: Arc::new(SystemClock::default()), rng: Arc::new(SystemRng), failpoints: None }
    }

    /// Time counted by tokio (so that a paused runtime controls it) from a fixed start, and
    /// randomness from a seed.
    pub fn simulated(seed: u64) -> Self {
        let (clock, rng) = (Arc::new(TokioClock::default()), Arc::new(SeededRng::new(seed)));
        Self { clock, rng, failpoints: None }
    }

    /// Says that the log is at a named place.
    pub fn failpoint(&self, name: &str) {
        if let Some(failpoints) = &self.failpoints {
            failpoints.reach(name);
        }
    }
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn default() -> Self {
        Self { start: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn now_ms(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A clock that follows tokio's time, which a test can pause and advance.
#[derive(Debug)]
pub struct TokioClock {
    start: tokio::time::Instant,
}

/// 2026-01-01T00:00:00Z, where simulated time begins.
const SIMULATED_START_MS: i64 = 1_767_225_600_000;

impl Default for TokioClock {
    fn default() -> Self {
        Self { start: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now_ms(&self) -> i64 {
        SIMULATED_START_MS + i64::try_from(self.monotonic().as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Randomness of the operating system.
#[derive(Debug)]
pub struct SystemRng;

impl Rng for SystemRng {
    fn fill(&self, bytes: &mut [u8]) {
        OsRng.try_fill_bytes(bytes).expect("the operating system gives random bytes");
    }
}

/// Randomness that one seed decides.
#[derive(Debug)]
pub struct SeededRng(Mutex<StdRng>);

impl SeededRng {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Rng for SeededRng {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().expect("no holder of the lock panics").fill_bytes(bytes);
    }
}
