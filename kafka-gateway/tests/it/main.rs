//! The gateway over a log in memory, driven with raw frames through loopback connections.

mod admin;
mod fetching;
mod groups;
mod malformed;
mod producing;
mod seeking;
mod support;
mod transactions;
