//! Faults as data: the kinds, what each needs, and a schedule from a seed. Nothing here injects one.

mod kind;
mod plan;
mod signal;

pub use kind::{Control, FaultKind};
pub use plan::{FaultPhase, FaultPlan, PhaseId, PlanOptions};
pub(crate) use signal::Ended;
pub use signal::{Injector, PhaseSignal};
