//! A seeded simulation of commit and open.

use super::error::OpenError;
use super::walk::Walker;
use crate::ids::WalPosition;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrongRule {
    AckEach,
}

pub(super) async fn fence_place(
    _walker: &Walker,
    _rule: Option<WrongRule>,
    place: WalPosition,
) -> Result<WalPosition, OpenError> {
    Ok(place)
}
