//! What every table of the catalogs looks like: data, no logic.

mod empty;
mod filled;
mod standard_empty;
mod standard_filled;

use super::Definition;

static TABLES: [&[Definition]; 4] =
    [&filled::FILLED, &empty::EMPTY, &standard_filled::FILLED, &standard_empty::EMPTY];

/// Every table of the catalogs.
pub(super) fn all() -> impl Iterator<Item = &'static Definition> {
    TABLES.iter().copied().flatten()
}
