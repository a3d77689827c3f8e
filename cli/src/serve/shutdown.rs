//! When to stop: SIGTERM, SIGINT, or a part that can serve no more.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;

/// The two signals that end the server in order.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From here on the signals do not kill the process.
    pub fn install() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))
        };
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for one of them and names it.
    pub async fn received(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Tells every part to stop.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Lets a part wait for being told to stop.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stopper {
    pub fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    pub fn handle(&self) -> Stop {
        Stop(self.0.subscribe())
    }
}

impl Stop {
    /// Resolves once the server stops, also when whoever would tell has gone.
    pub async fn requested(mut self) {
        // An error says that the sender is gone, which is as good as being told.
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }

    pub fn receiver(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }
}
