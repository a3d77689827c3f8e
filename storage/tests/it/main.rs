//! The storage crate from outside: on an S3 server in memory, and on stores that older builds wrote.

mod golden;
mod outage;
mod remote_store;
mod request_budget;
mod s3;
