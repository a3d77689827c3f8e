//! What a request handler can reach: the gateway that all connections share, and the facts about
//! its own connection and request.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicI16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{Either, select};
use kafka_protocol::messages::TopicName;
use strandline_storage::access::Access;
use strandline_storage::ids::{TopicId, TopicPartition};
use strandline_storage::log::{Log, Snapshot, Topic, WriteError};
use strandline_storage::seam::Clock;
use tokio::sync::watch;
use uuid::Uuid;

use crate::authentication::Authenticator;
use crate::authorize::{Operation, Principal, Resource, Rights, Subject};
use crate::error_code::{ErrorCode, NONE};
use crate::fetch_session::FetchSessions;
use crate::group::coordinator::GroupCoordinator;
use crate::group::coordinator::Request;
use crate::group::{GroupError, Reply};
use crate::listener::ListenerSettings;
use crate::memory::MemoryBudget;
use crate::quota::{ClientQuotas, Mute};
use crate::settings::GatewaySettings;
use crate::transaction::coordinator::TransactionCoordinator;

/// Producer ids are taken from the log in blocks of this many.
const PRODUCER_IDS_PER_BLOCK: u32 = 100;

/// Why a part of a request was refused, with a sentence for the person who asked.
pub(crate) type Refusal = (ErrorCode, String);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) log: Log,
    pub(crate) settings: GatewaySettings,
    pub(crate) groups: Arc<GroupCoordinator>,
    pub(crate) fetch_sessions: FetchSessions,
    pub(crate) transactions: TransactionCoordinator,
    pub(crate) quotas: ClientQuotas,
    /// For large request frames.
    pub(crate) request_memory: Arc<MemoryBudget>,
    /// For Fetch answers.
    pub(crate) response_memory: Arc<MemoryBudget>,
    pub(crate) authenticator: Authenticator,
    producer_ids: Mutex<Range<i64>>,
    /// True once the gateway drains: nothing waits for data any more.
    draining: watch::Receiver<bool>,
}

impl Gateway {
    pub(crate) fn new(log: Log, settings: GatewaySettings, draining: watch::Receiver<bool>) -> Arc<Self> {
        let groups = GroupCoordinator::new(&settings, log.clone());
        let contended_timeout = settings.contended_timeout;
        let budget = |bytes_max| MemoryBudget::new(bytes_max, contended_timeout, log.seams().clock.clone());
        Arc::new(Self {
            groups: Arc::new(groups),
            fetch_sessions: FetchSessions::new(log.seams().clone()),
            transactions: TransactionCoordinator::new(log.clone(), &settings),
            quotas: ClientQuotas::default(),
            request_memory: budget(settings.request_bytes_max),
            response_memory: budget(settings.response_bytes_max),
            authenticator: Authenticator::new(log.seams().rng.as_ref()),
            log,
            settings,
            producer_ids: Mutex::new(0..0),
            draining,
        })
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.log.seams().clock.as_ref()
    }

    /// Users, rules and quotas as they are now.
    pub(crate) fn access(&self) -> Arc<Access> {
        self.log.access()
    }

    /// A producer id that was never given out before.
    pub(crate) async fn next_producer_id(&self) -> Result<i64, WriteError> {
        if let Some(id) = self.lock_producer_ids().next() {
            return Ok(id);
        }
        // Ids of a block that another request replaces here are lost, which costs nothing.
        let mut block = self.log.allocate_producer_ids(PRODUCER_IDS_PER_BLOCK).await?;
        let id = block.next().expect("a block has at least one id");
        *self.lock_producer_ids() = block;
        Ok(id)
    }

    fn lock_producer_ids(&self) -> std::sync::MutexGuard<'_, Range<i64>> {
        self.producer_ids.lock().expect("no holder of the lock panics")
    }

    /// Resolves when the gateway begins to drain.
    pub(crate) async fn drained(&self) {
        // The sender lives as long as the server; once it is gone, the gateway is going too.
        let mut draining = self.draining.clone();
        let _ = draining.wait_for(|draining| *draining).await;
    }
}

/// The two addresses of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// On this side.
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// The facts about a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) principal: Principal,
    subject: Arc<Subject>,
    /// The address on this side that the client connected to.
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) mute: Mute,
    pub(crate) listener: Arc<ListenerSettings>,
    /// True once no more requests are read.
    ending: watch::Sender<bool>,
}

impl Connection {
    /// Of a socket with these ends.
    pub(crate) fn new(principal: Principal, ends: Ends, listener: Arc<ListenerSettings>) -> Self {
        let Ends { local, peer } = ends;
        let (mute, ending) = (Mute::default(), watch::Sender::new(false));
        let subject = Arc::new(Subject::new(&principal, peer.ip()));
        Self { principal, subject, local, peer, mute, listener, ending }
    }

    /// Says that no more requests are read: the client has gone or broke the protocol.
    pub(crate) fn end(&self) {
        self.ending.send_replace(true);
    }
}

/// What the handler of one request works with.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) version: i16,
    pub(crate) client_id: Option<String>,
    pub(crate) rights: Rights,
    first_error: Arc<AtomicI16>,
}

impl Context {
    pub(crate) fn new(gateway: Arc<Gateway>, connection: Arc<Connection>, version: i16) -> Self {
        let rights = match &gateway.settings.authorizer {
            Some(authorizer) => Rights::new(authorizer, gateway.log.access(), connection.subject.clone()),
            None => Rights::default(),
        };
        let first_error = Arc::new(AtomicI16::new(NONE));
        Self { gateway, connection, version, client_id: None, rights, first_error }
    }

    pub(crate) fn with_client_id(self, client_id: Option<String>) -> Self {
        Self { client_id, ..self }
    }

    /// Resolves when nothing is worth waiting for any more: the gateway drains, or the client has
    /// gone.
    pub(crate) async fn hurried(&self) {
        let mut ending = self.connection.ending.subscribe();
        tokio::select! {
            () = self.gateway.drained() => (),
            // The sender lives as long as the connection, which this borrows.
            _ = ending.wait_for(|ending| *ending) => (),
        }
    }

    /// Gives one input to a group and waits for the answer. Nobody waits for a rebalance when nothing
    /// is worth waiting for: a client that is still there asks again.
    pub(crate) async fn step_group(&self, group_id: &str, request: Request) -> Reply {
        tokio::select! {
            biased;
            reply = self.gateway.groups.submit(group_id, request) => reply,
            () = self.hurried() => Reply::Failed(GroupError::NotCoordinator),
        }
    }

    /// The client's address as groups show it.
    pub(crate) fn client_host(&self) -> String {
        format!("/{}", self.connection.peer.ip().to_canonical())
    }

    pub(crate) fn log(&self) -> &Log {
        &self.gateway.log
    }

    pub(crate) fn settings(&self) -> &GatewaySettings {
        &self.gateway.settings
    }

    /// The number of an error on the wire. The first one of a request is what its metrics name.
    pub(crate) fn code(&self, error: ErrorCode) -> i16 {
        let code = error.wire();
        let _ = self.first_error.compare_exchange(NONE, code, Ordering::Relaxed, Ordering::Relaxed);
        code
    }

    pub(crate) fn first_error(&self) -> i16 {
        self.first_error.load(Ordering::Relaxed)
    }

    /// Whether the client may do this, for what is left out of an answer otherwise.
    pub(crate) fn may(&self, operation: Operation, resource: Resource<'_>) -> bool {
        self.rights.allow(operation, resource)
    }

    /// Whether the client may do this; otherwise the error that says so for the kind of resource.
    pub(crate) fn authorize(&self, operation: Operation, resource: Resource<'_>) -> Result<(), ErrorCode> {
        if self.may(operation, resource) {
            return Ok(());
        }
        let (principal, peer) = (&self.connection.principal.name, self.connection.peer);
        tracing::debug!(%principal, %peer, ?operation, ?resource, "not authorized");
        Err(match resource {
            Resource::Cluster => ErrorCode::ClusterAuthorizationFailed,
            Resource::Topic(_) => ErrorCode::TopicAuthorizationFailed,
            Resource::Group(_) => ErrorCode::GroupAuthorizationFailed,
            Resource::TransactionalId(_) => ErrorCode::TransactionalIdAuthorizationFailed,
        })
    }

    /// The same, with a sentence for the person who asked.
    pub(crate) fn check_authorized(
        &self,
        operation: Operation,
        resource: Resource<'_>,
    ) -> Result<(), Refusal> {
        self.authorize(operation, resource).map_err(|error| (error, "not authorized".to_owned()))
    }

    /// A topic of a snapshot to do something to. A client that may not do that does not learn from a
    /// name whether there is such a topic.
    pub(crate) fn find_topic<'a>(
        &self,
        operation: Operation,
        snapshot: &'a Snapshot,
        key: &TopicKey,
    ) -> Result<&'a Topic, ErrorCode> {
        if let TopicKey::Name(name) = key {
            self.authorize(operation, Resource::Topic(name))?;
        }
        let topic = find_topic(snapshot, key)?;
        self.authorize(operation, Resource::Topic(&topic.name))?;
        Ok(topic)
    }

    /// All that the client may do to a resource, one bit per operation.
    pub(crate) fn authorized_operations(&self, resource: Resource<'_>) -> i32 {
        self.rights.allowed_operations(resource)
    }

    /// The host and port that this client is told to connect to: those of the listener that it came
    /// by, or a literal of the address family that it used, because a name might lead it to an address
    /// where nobody listens.
    pub(crate) fn advertised(&self) -> (String, i32) {
        match &self.connection.listener.advertised {
            Some((host, port)) => (host.clone(), i32::from(*port)),
            None => {
                let local = self.connection.local;
                (local.ip().to_canonical().to_string(), i32::from(local.port()))
            }
        }
    }

    /// Runs something for at most `timeout_ms` milliseconds. `None`: it was not done by then.
    pub(crate) async fn within<F: Future>(&self, timeout_ms: i32, work: F) -> Option<F::Output> {
        let timeout = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
        let sleep = self.gateway.clock().sleep(timeout);
        match select(std::pin::pin!(work), sleep).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }
}

/// A topic as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TopicKey {
    Name(TopicName),
    Id(Uuid),
}

impl fmt::Display for TopicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "\"{}\"", name.as_str()),
            Self::Id(id) => id.fmt(f),
        }
    }
}

/// A topic of a snapshot, however it is named.
pub(crate) fn find_topic<'a>(snapshot: &'a Snapshot, key: &TopicKey) -> Result<&'a Topic, ErrorCode> {
    let (found, unknown) = match key {
        TopicKey::Name(name) => (snapshot.topic(name), ErrorCode::UnknownTopicOrPartition),
        TopicKey::Id(id) => {
            (snapshot.topic_by_id(TopicId::from_bytes(id.into_bytes())), ErrorCode::UnknownTopicId)
        }
    };
    found.map(AsRef::as_ref).ok_or(unknown)
}

/// A partition of a snapshot by the name of its topic.
pub(crate) fn find_partition(
    snapshot: &Snapshot,
    topic: &str,
    partition: i32,
) -> Result<TopicPartition, ErrorCode> {
    let topic = snapshot.topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    partition_of(topic, partition)
}

/// A partition of a topic, if it has it.
pub(crate) fn partition_of(topic: &Topic, partition: i32) -> Result<TopicPartition, ErrorCode> {
    if (0..topic.partition_count).contains(&partition) {
        Ok(TopicPartition::new(topic.id, partition))
    } else {
        Err(ErrorCode::UnknownTopicOrPartition)
    }
}

/// Checks the leader epoch that a client believes in; -1 checks nothing.
pub(crate) fn check_leader_epoch(believed: i32, current: i32) -> Result<(), ErrorCode> {
    match believed {
        -1 => Ok(()),
        epoch if epoch < current => Err(ErrorCode::FencedLeaderEpoch),
        epoch if epoch > current => Err(ErrorCode::UnknownLeaderEpoch),
        _ => Ok(()),
    }
}
