//! Statements of the language and of real clients, rewritten, planned and run on a DataFusion
//! session whose tables in memory stand in for topics.

mod arithmetic;
mod catalogs;
mod fixture;
mod language;
mod names;
mod times;
