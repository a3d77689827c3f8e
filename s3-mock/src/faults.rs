//! What goes wrong, and when.

use std::collections::VecDeque;
use std::time::Duration;

/// The requests that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    PutObject,
    GetObject,
    HeadObject,
    ListObjects,
    DeleteObjects,
    CreateUpload,
    UploadPart,
    CompleteUpload,
    AbortUpload,
}

/// What a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens, and this HTTP status is answered.
    Refuse(u16),
    /// The request is carried out, and this HTTP status is answered all the same.
    RefuseAfter(u16),
    /// The request is carried out this much later.
    Delay(Duration),
    /// Nothing happens, and nothing is answered.
    Hang,
}

/// Faults to come.
#[derive(Debug, Default)]
pub(crate) struct FaultPlan {
    /// For the next requests, in turn.
    next: VecDeque<Planned>,
    /// For every other request.
    standing: Option<Fault>,
}

#[derive(Debug)]
struct Planned {
    /// None = any.
    operation: Option<Operation>,
    fault: Fault,
}

impl FaultPlan {
    pub(crate) fn add(&mut self, operation: Option<Operation>, fault: Fault) {
        self.next.push_back(Planned { operation, fault });
    }

    pub(crate) fn set_standing(&mut self, fault: Option<Fault>) {
        self.standing = fault;
    }

    /// The fault that a request meets now.
    pub(crate) fn meet(&mut self, operation: Operation) -> Option<Fault> {
        let meets = |planned: &Planned| planned.operation.is_none_or(|planned| planned == operation);
        let planned = self.next.iter().position(meets).and_then(|at| self.next.remove(at));
        planned.map(|planned| planned.fault).or(self.standing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planned_fault_is_met_once_and_by_its_operation_only() {
        let mut plan = FaultPlan::default();
        plan.add(Some(Operation::GetObject), Fault::Hang);
        plan.add(None, Fault::Refuse(503));
        assert_eq!(plan.meet(Operation::PutObject), Some(Fault::Refuse(503)));
        assert_eq!(plan.meet(Operation::PutObject), None);
        assert_eq!(plan.meet(Operation::GetObject), Some(Fault::Hang));
        plan.set_standing(Some(Fault::Refuse(403)));
        assert_eq!(plan.meet(Operation::GetObject), Some(Fault::Refuse(403)));
        assert_eq!(plan.meet(Operation::GetObject), Some(Fault::Refuse(403)));
    }
}
