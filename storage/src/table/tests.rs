//! Topics as tables over a log on a store in memory: held against what a fetch returns, and against the work
//! that a statement is allowed.

mod cases;
mod fixture;
mod moved;
mod oracle;
mod payload;
mod slices;
mod transactions;
mod work;
