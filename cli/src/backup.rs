//! `strandline backup` and `strandline restore`: copies of the log, to and from any store.

use chrono::{DateTime, SecondsFormat, Utc};
use strandline_storage::log::OpenError;
use strandline_storage::log::backup::{BackupError, BackupReport, CopyStores, backup, restore};
use strandline_storage::object::StoreError;
use strandline_storage::seam::Seams;

use crate::args::{BackupArgs, RestoreArgs};
use crate::data::{Access, ByteBar, bytes_text, open_store};
use crate::failure::Failure;
use crate::output::{grouped, print_line};

/// `strandline backup`.
pub async fn run_backup(args: BackupArgs) -> Result<(), Failure> {
    let from = open_store(&args.data, Access::Read).await?;
    let to = open_store(&args.to, Access::Write).await?;
    let bar = ByteBar::new();
    let report = backup(&CopyStores { from, to }, &Seams::system(), &mut |done| bar.show(done)).await;
    bar.finish();
    let report = report.map_err(failure)?;
    print_line(&format!("backed up cluster {} to {}", report.cluster_id, args.to))?;
    print_line(&format!("everything acknowledged before {} is in it", time_text(report.begun_at_ms)))?;
    print_counts(&report)
}

/// `strandline restore`.
pub async fn run_restore(args: RestoreArgs) -> Result<(), Failure> {
    let from = open_store(&args.from, Access::Read).await?;
    let to = open_store(&args.data, Access::Write).await?;
    let bar = ByteBar::new();
    let report = restore(&CopyStores { from, to }, &Seams::system(), &mut |done| bar.show(done)).await;
    bar.finish();
    let report = report.map_err(failure)?;
    print_line(&format!("restored cluster {} to {}", report.cluster_id, args.data))?;
    print_line(&format!("everything acknowledged before {} is in it", time_text(report.begun_at_ms)))?;
    print_counts(&report)
}

fn print_counts(report: &BackupReport) -> Result<(), Failure> {
    let BackupReport { copied, present, .. } = report;
    print_line(&format!("copied {} objects, {}", grouped(copied.objects), bytes_text(copied.bytes)))?;
    if present.objects > 0 {
        let size = bytes_text(present.bytes);
        print_line(&format!("{} objects, {size}, were there already", grouped(present.objects)))?;
    }
    Ok(())
}

fn time_text(time_ms: i64) -> String {
    let time = DateTime::<Utc>::from_timestamp_millis(time_ms).unwrap_or_default();
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A store that does not answer is told from what is in it.
fn failure(error: BackupError) -> Failure {
    match &error {
        BackupError::Source(OpenError::Store { .. } | OpenError::NoLog { .. })
        | BackupError::Target {
            source: StoreError::Unavailable { .. } | StoreError::Denied { .. }, ..
        } => Failure::Unreachable(error.to_string()),
        _ => Failure::failed(error),
    }
}
