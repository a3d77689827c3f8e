//! The values that a gateway is started with. Components (the log, its clock) come beside them.

use std::time::Duration;

use strandline_storage::access::Authorizer;

/// Whether a Metadata request may create the topics that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoCreate {
    Enabled,
    Disabled,
}

/// What a gateway is started with. Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    pub node_id: i32,
    /// `None`: everybody may do everything, and there are no rules.
    pub authorizer: Option<Authorizer>,
    pub auto_create_topics: AutoCreate,
    /// Partitions of a topic whose creator does not say how many.
    pub num_partitions_default: i32,
    pub group_initial_rebalance_delay: Duration,
    /// Bounds, inclusive, of the session timeout that a group member may ask for.
    pub group_session_timeout_min: Duration,
    pub group_session_timeout_max: Duration,
    /// A member of the consumer protocol (KIP-848) is taken for dead when it was silent for this time.
    pub group_consumer_session_timeout: Duration,
    /// How often such a member is told to send a heartbeat.
    pub group_consumer_heartbeat_interval: Duration,
    pub group_members_max: usize,
    pub groups_max: usize,
    /// Metadata and assignments of all members of a group together, in bytes.
    pub group_metadata_bytes_max: usize,
    /// Of one listener.
    pub connections_max: usize,
    /// Larger frames close their connection.
    pub frame_bytes_max: usize,
    /// Requests of one connection that are begun and not yet answered.
    pub in_flight_max: usize,
    /// Bytes of all large request frames that are held at a time. One frame may go beyond it.
    pub request_bytes_max: usize,
    /// The most that one Fetch answers with, except that a first batch is always whole.
    pub fetch_bytes_max: usize,
    /// Bytes of all Fetch answers that are held until their clients have read them.
    pub response_bytes_max: usize,
    /// How long a TLS handshake may take, and after it proving who one is.
    pub authentication_timeout: Duration,
    /// How long a client waits for the answer that says that it could not prove who it is.
    pub failed_authentication_delay: Duration,
    /// A client has to prove again who it is before this time is over (KIP-368). `None`: never.
    pub reauthentication: Option<Duration>,
    /// A connection that sends nothing and waits for nothing is closed after this.
    pub idle_timeout: Duration,
    /// A connection whose client sends no byte in the middle of a frame is closed after this.
    pub stall_timeout: Duration,
    /// A connection whose client takes no byte of its answers is closed after this. Longer than a
    /// consumer may go without polling, because some read their answers only then.
    pub slow_reader_timeout: Duration,
    /// The same for clients that stall while others wait for the memory that their requests and
    /// answers hold.
    pub contended_timeout: Duration,
    /// How long requests in flight may take to be answered when the gateway shuts down.
    pub drain_timeout: Duration,
    /// An offset commit, or a step of a transaction, that is not durable by then is answered with a
    /// retriable error.
    pub offset_commit_timeout: Duration,
    /// What a group without members committed is forgotten after this time.
    pub offsets_retention: Duration,
    /// How often is looked for it.
    pub offsets_expiry_interval: Duration,
    /// Longest metadata text of a committed offset, in bytes.
    pub offset_metadata_bytes_max: usize,
    /// The longest timeout that a transactional producer may ask for.
    pub transaction_timeout_max: Duration,
    /// A transactional id that was not used for this time is forgotten.
    pub transactional_id_expiration: Duration,
    pub transactional_ids_max: usize,
    /// Partitions of one transaction.
    pub transaction_partitions_max: usize,
    /// Bytes of all offsets that one transaction commits, with the names of their groups.
    pub transaction_offset_bytes_max: usize,
}

const MIB: usize = 1024 * 1024;

impl Default for GatewaySettings {
    /// The defaults of Apache Kafka's broker where it has the setting.
    fn default() -> Self {
        Self {
            node_id: 0,
            authorizer: None,
            auto_create_topics: AutoCreate::Enabled,
            num_partitions_default: 1,
            group_initial_rebalance_delay: Duration::from_secs(3),
            group_session_timeout_min: Duration::from_secs(6),
            group_session_timeout_max: Duration::from_secs(1800),
            group_consumer_session_timeout: Duration::from_secs(45),
            group_consumer_heartbeat_interval: Duration::from_secs(5),
            group_members_max: 10_000,
            groups_max: 100_000,
            group_metadata_bytes_max: 8 * MIB,
            connections_max: 10_000,
            frame_bytes_max: 100 * MIB,
            in_flight_max: 64,
            request_bytes_max: 256 * MIB,
            fetch_bytes_max: 55 * MIB,
            response_bytes_max: 256 * MIB,
            authentication_timeout: Duration::from_secs(60),
            failed_authentication_delay: Duration::from_millis(100),
            reauthentication: None,
            idle_timeout: Duration::from_secs(600),
            stall_timeout: Duration::from_secs(60),
            slow_reader_timeout: Duration::from_secs(330),
            contended_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(10),
            offset_commit_timeout: Duration::from_secs(5),
            offsets_retention: Duration::from_secs(7 * 24 * 3600),
            offsets_expiry_interval: Duration::from_secs(600),
            offset_metadata_bytes_max: 4096,
            transaction_timeout_max: Duration::from_secs(900),
            transactional_id_expiration: Duration::from_secs(7 * 24 * 3600),
            transactional_ids_max: 100_000,
            transaction_partitions_max: 20_000,
            transaction_offset_bytes_max: 4 * MIB,
        }
    }
}
