//! One test binary: each module is a view of the server from outside.
//!
//! `server` runs the real binary, `raw` speaks the Kafka protocol byte by byte, `sql` and `kafka` are
//! real clients. A case "two ways" is checked on a running server and again after a kill and a
//! restart, when everything is read back from the log's objects.

mod backup;
mod bad_input;
mod beside;
mod cases_decoding;
mod cases_names;
mod cases_records;
mod cases_time;
mod cases_transactions;
mod clients;
mod command_line;
mod full_disk;
mod kafka;
mod kill;
mod metrics;
mod object_store;
mod raw;
mod raw_producer;
mod security;
mod server;
mod sql;
mod transactions;
