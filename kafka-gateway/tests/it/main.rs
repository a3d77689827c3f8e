//! The gateway over a log in memory, driven with raw frames through loopback connections.

mod admin;
mod altering;
mod authentication;
mod authorization;
mod certificates;
mod cluster;
mod credentials;
mod fetch_sessions;
mod fetching;
mod groups;
mod listeners;
mod malformed;
mod pitfalls;
mod producing;
mod quotas;
mod rules;
mod seeking;
mod support;
mod transactions;
