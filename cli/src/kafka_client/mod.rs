//! A small Kafka client for the commands that talk to a server: one connection, requests in order.
//!
//! A Strandline server leads every partition, so the bootstrap address is the only one that is used,
//! which also works through a forwarded port. Record batches are built and read by storage's own
//! format code.

mod admin;
mod connection;
mod consumer;
mod endpoint;
mod error;
mod groups;
mod login;
mod partitioner;
mod producer;
mod rules;
mod stream;
mod users;

pub use admin::{Admin, PartitionRange, TopicSetting, TopicSummary};
pub use consumer::{ConsumedRecord, Consumer, StartAt};
pub use endpoint::Endpoint;
pub use error::ClientError;
pub use groups::{GroupMember, GroupOffset};
pub use partitioner::Partitioner;
pub use producer::{Delivery, OpenBatch, Producer, ProducerOptions};
pub use rules::RuleFilter;
