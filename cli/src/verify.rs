//! `strandline verify`: reads every object of a store, and says what is damaged or missing.

use serde_json::{Value, json};
use strandline_storage::log::verify::{Damage, DamagedPart, ObjectKind, VerifyReport, verify};
use strandline_storage::log::{Log, LogSettings, OpenError};
use strandline_storage::seam::Seams;

use crate::args::{ReportFormat, VerifyArgs};
use crate::data::{Access, ByteBar, bytes_text, open_store};
use crate::failure::Failure;
use crate::output::{Alignment, TextTable, grouped, print, print_line};

/// How many damages are named one by one in a text; all are in the JSON.
const DAMAGES_SHOWN: usize = 200;

/// `strandline verify`.
pub async fn run(args: VerifyArgs) -> Result<(), Failure> {
    let mut report = verify_data(&args.data).await?;
    if args.repair_index && has_derivable(&report) {
        repair_index(&args.data, &report).await?;
        report = verify_data(&args.data).await?;
    }
    match args.format {
        ReportFormat::Text => print_text(&report)?,
        ReportFormat::Json => print_line(&to_json(&report).to_string())?,
    }
    match report.damaged_objects().len() {
        0 => Ok(()),
        1 => Err(Failure::failed("1 object is damaged or missing")),
        count => Err(Failure::failed(format!("{count} objects are damaged or missing"))),
    }
}

/// Verifies a store, with a bar.
pub async fn verify_data(data: &str) -> Result<VerifyReport, Failure> {
    let store = open_store(data, Access::Read).await?;
    let bar = ByteBar::new();
    let report = verify(&store, &LogSettings::default(), &Seams::system(), &mut |done| bar.show(done)).await;
    bar.finish();
    report.map_err(unreadable)
}

/// A log that is there and is refused is a failure; one that is not there cannot be reached.
pub fn unreadable(error: OpenError) -> Failure {
    match error {
        OpenError::Store { .. } | OpenError::NoLog { .. } => Failure::Unreachable(error.to_string()),
        error => Failure::failed(error),
    }
}

fn is_derivable(damage: &Damage) -> bool {
    damage.kind == ObjectKind::Segment && matches!(damage.part, DamagedPart::Index | DamagedPart::Frame)
}

fn has_derivable(report: &VerifyReport) -> bool {
    report.damages.iter().any(is_derivable)
}

async fn repair_index(data: &str, report: &VerifyReport) -> Result<(), Failure> {
    let store = open_store(data, Access::Write).await?;
    let log = Log::open(store, LogSettings::default(), Seams::system()).await.map_err(Failure::failed)?;
    let repaired = log.repair_index(report).await;
    log.close().await;
    let repaired = repaired.map_err(Failure::failed)?;
    eprintln!(
        "rewrote {} slices with a new index; the damaged segments are deleted in time",
        repaired.rewritten
    );
    Ok(())
}

fn print_text(report: &VerifyReport) -> Result<(), Failure> {
    let cluster = report.cluster_id.as_deref().unwrap_or("unknown");
    print_line(&format!("{}: cluster {cluster}", report.location))?;
    let columns = [("objects of", Alignment::Left), ("count", Alignment::Right), ("size", Alignment::Right)];
    let mut table = TextTable::new(&columns);
    for (kind, checked) in &report.checked {
        table.push(vec![kind.to_string(), grouped(checked.objects), bytes_text(checked.bytes)]);
    }
    print(&table.take_text())?;
    print_line(&format!("records read: {}", grouped(report.records)))?;
    if report.awaiting_deletion > 0 {
        print_line(&format!("objects that are deleted in time: {}", grouped(report.awaiting_deletion)))?;
    }
    if !report.unreferenced.is_empty() {
        let count = grouped(report.unreferenced.len() as u64);
        print_line(&format!("objects that nothing refers to, which is no damage: {count}"))?;
    }
    for range in &report.accepted {
        print_line(&format!("lost with consent: {range}"))?;
    }
    if report.is_clean() {
        return print_line("no damage");
    }
    print_damages(&report.damages)?;
    if has_derivable(report) {
        print_line("indexes can be rebuilt from whole batches: stop the server and add --repair-index")?;
    }
    Ok(())
}

/// One line for each, up to a bound.
pub fn print_damages(damages: &[Damage]) -> Result<(), Failure> {
    for damage in damages.iter().take(DAMAGES_SHOWN) {
        print_line(&format!("damage: {damage}"))?;
    }
    match damages.len().checked_sub(DAMAGES_SHOWN) {
        Some(more) if more > 0 => {
            print_line(&format!("and {} more; --format json has all", grouped(more as u64)))
        }
        _ => Ok(()),
    }
}

fn to_json(report: &VerifyReport) -> Value {
    let checked = report.checked.iter().map(|(kind, checked)| {
        (kind.as_str().to_owned(), json!({"objects": checked.objects, "bytes": checked.bytes}))
    });
    let accepted: Vec<_> = report.accepted.iter().map(|range| range_json(Some(range))).collect();
    json!({
        "location": report.location,
        "cluster_id": report.cluster_id,
        "checked": checked.collect::<serde_json::Map<_, _>>(),
        "records": report.records,
        "damages": report.damages.iter().map(damage_json).collect::<Vec<_>>(),
        "unreferenced": report.unreferenced,
        "awaiting_deletion": report.awaiting_deletion,
        "lost_with_consent": accepted,
    })
}

fn damage_json(damage: &Damage) -> Value {
    let mut value = range_json(damage.range.as_ref());
    value["object"] = damage.object.clone().into();
    value["kind"] = damage.kind.as_str().into();
    value["part"] = damage.part.as_str().into();
    value["what"] = damage.what.clone().into();
    value
}

fn range_json(range: Option<&strandline_storage::log::verify::DamagedRange>) -> Value {
    json!({
        "topic": range.and_then(|range| range.topic.clone()),
        "topic_id": range.map(|range| range.topic_partition.topic_id.to_string()),
        "partition": range.map(|range| range.topic_partition.partition),
        "base_offset": range.map(|range| range.base_offset),
        "next_offset": range.map(|range| range.next_offset),
    })
}
