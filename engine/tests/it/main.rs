//! The engine from outside: sessions over a log on a store in memory.

mod bytes;
mod cases;
mod columns;
mod fixture;
mod limits;
mod numbers;
mod permissions;
mod prepared;
mod queries;
mod sessions;
