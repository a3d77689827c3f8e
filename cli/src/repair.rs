//! `strandline repair`: gives up what damaged or missing objects held, once somebody has read what that
//! is and said yes.

use strandline_storage::log::verify::{Damage, DamagedPart, DamagedRange, ObjectKind, VerifyReport};
use strandline_storage::log::{Log, LogSettings};
use strandline_storage::seam::Seams;

use crate::args::RepairArgs;
use crate::data::{Access, open_store};
use crate::failure::Failure;
use crate::output::{grouped, print_line};
use crate::verify::verify_data;

/// So many ranges fit on a screen.
const RANGES_SHOWN: usize = 15;

/// What is to be given up of one object.
struct Loss<'a> {
    object: &'a str,
    damages: Vec<&'a Damage>,
    ranges: Vec<DamagedRange>,
}

/// `strandline repair`.
pub async fn run(args: RepairArgs) -> Result<(), Failure> {
    let report = verify_data(&args.data).await?;
    let losses: Vec<_> = args.accept_loss.iter().map(|object| Loss::of(object, &report)).collect();
    losses.iter().try_for_each(Loss::check)?;
    losses.iter().try_for_each(Loss::say)?;
    if !args.yes {
        return Err(Failure::Usage("nothing was done; add --yes to give these records up".to_owned()));
    }
    give_up(&args.data, &losses).await?;
    let left = verify_data(&args.data).await?;
    match left.damages.iter().find(|damage| args.accept_loss.contains(&damage.object)) {
        None => print_line("done: readers skip these offsets from now on"),
        Some(damage) => {
            Err(Failure::failed(format!("{} is still damaged; run `strandline verify`", damage.object)))
        }
    }
}

impl<'a> Loss<'a> {
    fn of(object: &'a str, report: &'a VerifyReport) -> Self {
        let damages: Vec<_> = report.damages.iter().filter(|damage| damage.object == object).collect();
        let ranges = damages.iter().filter_map(|damage| damage.range.clone()).collect();
        Self { object, damages, ranges }
    }

    /// Refuses what is not damaged, and what can be had back.
    fn check(&self) -> Result<(), Failure> {
        let object = self.object;
        let Some(first) = self.damages.first() else {
            return Err(Failure::Usage(format!(
                "nothing is damaged at {object}; `strandline verify` names what is"
            )));
        };
        let is_derivable = |damage: &&Damage| matches!(damage.part, DamagedPart::Index | DamagedPart::Frame);
        let advice = match first.kind {
            ObjectKind::Segment if self.damages.iter().all(is_derivable) => {
                format!("the batches of {object} may be whole; try `strandline verify --repair-index` first")
            }
            ObjectKind::Wal | ObjectKind::Segment => return Ok(()),
            ObjectKind::Checkpoint => format!(
                "{object} holds no records: the log opens from the checkpoint before it, and writes a new one in time"
            ),
            kind => format!(
                "{object} holds no records, so there is none to give up; bring the {kind} back from a backup"
            ),
        };
        Err(Failure::Usage(advice))
    }

    /// Whether the object stops the log from opening: its front is damaged or it is missing, and no
    /// checkpoint knows what it held.
    fn stops_the_open(&self) -> bool {
        self.damages.iter().any(|damage| {
            damage.kind == ObjectKind::Wal
                && damage.range.is_none()
                && matches!(damage.part, DamagedPart::Front | DamagedPart::Missing)
        })
    }

    fn say(&self) -> Result<(), Failure> {
        print_line(&format!("{}: {}", self.object, self.damages[0].what))?;
        print_line("what is lost for good:")?;
        for range in self.ranges.iter().take(RANGES_SHOWN) {
            print_line(&format!("  {range}"))?;
        }
        if self.ranges.len() > RANGES_SHOWN {
            let more = grouped((self.ranges.len() - RANGES_SHOWN) as u64);
            print_line(&format!("  and {more} more ranges; `strandline verify --format json` has all"))?;
        }
        if !self.stops_the_open() {
            return Ok(());
        }
        print_line(
            "  and what else it held, which nothing says any more: records, topics, settings, offsets of",
        )?;
        print_line(
            "  groups; partitions without later records go on far behind, so that no offset comes twice",
        )
    }
}

async fn give_up(data: &str, losses: &[Loss<'_>]) -> Result<(), Failure> {
    let store = open_store(data, Access::Write).await?;
    let passed_over = losses.iter().filter(|loss| loss.stops_the_open());
    let accept_loss = passed_over.map(|loss| loss.object.to_owned()).collect();
    let settings = LogSettings { accept_loss, ..LogSettings::default() };
    let log = Log::open(store, settings, Seams::system()).await.map_err(Failure::failed)?;
    let mut given_up = Ok(());
    for loss in losses.iter().filter(|loss| !loss.stops_the_open()) {
        given_up = log.accept_loss(loss.object, &loss.ranges).await.map(drop);
        if given_up.is_err() {
            break;
        }
    }
    log.close().await;
    given_up.map_err(Failure::failed)
}
