//! The port and the handle that steers the server.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Extracted};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::counts::Counts;
use crate::faults::{Fault, FaultPlan, Operation};
use crate::objects::{Buckets, Conditions};
use crate::service::{Service, Shared, State};

/// How a server starts.
#[derive(Clone, Debug)]
pub struct MockOptions {
    /// 0 = any that is free.
    pub port: u16,
    /// The buckets that are there. Requests for others are refused.
    pub buckets: Vec<String>,
    /// Waited before each request is carried out.
    pub latency: Duration,
    pub conditions: Conditions,
    /// The most entries on a page of a listing.
    pub page_entries_max: usize,
}

impl Default for MockOptions {
    fn default() -> Self {
        Self {
            port: 0,
            buckets: vec!["bucket".to_owned()],
            latency: Duration::ZERO,
            conditions: Conditions::Kept,
            page_entries_max: 1000,
        }
    }
}

/// A running server. It and all connections to it end when this is dropped.
#[derive(Debug)]
pub struct S3Mock {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

impl S3Mock {
    /// Starts a server on a loopback port.
    ///
    /// # Errors
    /// If the port is taken.
    pub async fn start(options: MockOptions) -> io::Result<Self> {
        let state = State {
            buckets: Buckets::new(&options.buckets, options.conditions),
            counts: Counts::default(),
            faults: FaultPlan::default(),
            latency: options.latency,
        };
        let shared = Arc::new(Shared::new(state, options.page_entries_max));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
        let address = listener.local_addr()?;
        let service = S3ServiceBuilder::new(Service(Arc::clone(&shared))).build();
        let accepting = tokio::spawn(accept(listener, service)).abort_handle();
        Ok(Self { address, shared, accepting })
    }

    /// As `http://127.0.0.1:PORT`. Buckets are addressed by path.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Requests since the start or the last reset.
    pub fn counts(&self) -> Counts {
        self.shared.state().counts
    }

    pub fn reset_counts(&self) {
        self.shared.state().counts = Counts::default();
    }

    /// From now on each request waits so long before it is carried out.
    pub fn set_latency(&self, latency: Duration) {
        self.shared.state().latency = latency;
    }

    /// The next `count` requests are refused with this HTTP status.
    pub fn fail_next(&self, count: usize, status: u16) {
        self.add_faults(count, None, Fault::Refuse(status));
    }

    /// The next `count` requests of one kind meet a fault. It comes after those that were asked for
    /// before.
    pub fn fault_next(&self, count: usize, operation: Operation, fault: Fault) {
        self.add_faults(count, Some(operation), fault);
    }

    /// From now on every request meets this fault, or none.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.shared.state().faults.set_standing(fault);
    }

    /// From now on conditions of puts are kept, or not.
    pub fn set_conditions(&self, conditions: Conditions) {
        self.shared.state().buckets.conditions = conditions;
    }

    /// Every object, as `bucket/key`.
    pub fn objects(&self) -> BTreeMap<String, Bytes> {
        self.shared.state().buckets.all()
    }

    /// Uploads in parts that were neither completed nor aborted.
    pub fn open_uploads(&self) -> usize {
        self.shared.state().buckets.open_uploads()
    }

    fn add_faults(&self, count: usize, operation: Option<Operation>, fault: Fault) {
        let mut state = self.shared.state();
        (0..count).for_each(|_| state.faults.add(operation, fault));
    }
}

impl Drop for S3Mock {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts connections until it is dropped, and they end with it.
async fn accept(listener: TcpListener, service: S3Service) {
    let router = Router::new().fallback(answer).with_state(service);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => { connections.spawn(serve(stream, router.clone())); }
                // Of one connection, or for want of files: the next one may come through.
                Err(_) => tokio::task::yield_now().await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, router: Router) {
    // Without it a small answer may wait for an acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router);
    // A connection that broke is the client's matter.
    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

/// Takes the signature away, because without a key to check it against any is good.
async fn answer(Extracted(service): Extracted<S3Service>, mut request: Request) -> Response {
    request.headers_mut().remove(AUTHORIZATION);
    match service.call(request.map(s3s::Body::http_body_unsync)).await {
        Ok(response) => response.map(Body::new),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:?}")).into_response(),
    }
}
