//! docs/metrics.md against what a server shows.

use std::collections::{BTreeMap, BTreeSet};

use strandline_storage::format::Compression;

use crate::raw::{FetchLimits, RawClient, RawRecord, batch};
use crate::server::Server;
use crate::sql::Sql;

const PAGE: &str = include_str!("../../../docs/metrics.md");

/// What is known of a metric beside its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Metric {
    kind: String,
    labels: BTreeSet<String>,
}

#[tokio::test]
async fn the_page_of_metrics_names_what_a_server_shows_and_nothing_else() {
    let server = Server::start();
    let mut raw = RawClient::connect(server.kafka);
    raw.create_topic("measured", 1, &[]);
    raw.produce_ok("measured", 0, batch(Compression::None, &[RawRecord::at(1_700_000_000_000, "one")]));
    raw.fetch("measured", 0, FetchLimits::from(0));
    let sql = Sql::connect(&server).await;
    assert_eq!(sql.text("SELECT count(_value) FROM measured").await, "1");
    assert_eq!(sql.sqlstate("SELECT * FROM nothing").await, "42P01");
    let (status, text) = server.http_get("/metrics");
    assert_eq!(status, 200);
    let (shown, page) = (shown(&text), on_the_page());
    assert!(page.len() > 50, "{page:?}");
    for (name, metric) in &page {
        assert_eq!(shown.get(name), Some(metric), "{name} is on the page; shown is\n{text}");
    }
    let missing: Vec<_> = shown.keys().filter(|name| !page.contains_key(*name)).collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
}

#[test]
fn what_to_alert_on_are_metrics_of_the_page() {
    let page = on_the_page();
    for line in PAGE.lines().skip_while(|line| !line.starts_with("## What to alert on")) {
        for word in line.split(|c: char| !(c.is_ascii_lowercase() || c == '_')) {
            let base = ["_sum", "_count"].iter().find_map(|part| word.strip_suffix(part)).unwrap_or(word);
            let is_known = page.contains_key(base) || !word.starts_with("strandline_");
            assert!(is_known, "{word} in {line}");
        }
    }
}

/// The rows of the tables whose first cell is a metric: name, type, unit, labels, meaning.
fn on_the_page() -> BTreeMap<String, Metric> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, _, labels, ..] = cells[..] else { return None };
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        let labels = labels.split(',').map(|label| label.trim().trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        name.starts_with("strandline_").then(|| (name.to_owned(), Metric { kind: kind.to_owned(), labels }))
    };
    PAGE.lines().filter(|line| line.matches('|').count() == 6).filter_map(row).collect()
}

/// The metrics of a text in the format of Prometheus. A histogram has three names and a label of its own.
fn shown(text: &str) -> BTreeMap<String, Metric> {
    let mut metrics = BTreeMap::<String, Metric>::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            metrics.entry(name.to_owned()).or_default().kind = kind.to_owned();
        }
    }
    for line in text.lines().filter(|line| line.starts_with("strandline_")) {
        let (sample, _) = line.rsplit_once(' ').expect("a sample has a value");
        let (name, labels) = sample.trim_end_matches('}').split_once('{').unwrap_or((sample, ""));
        let mut parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
        let base = parts.find(|base| metrics.contains_key(*base)).unwrap_or(name);
        let names = labels.split(',').filter_map(|label| label.split_once('=')).map(|(name, _)| name);
        let names = names.filter(|name| *name != "le").map(str::to_owned);
        metrics.entry(base.to_owned()).or_default().labels.extend(names);
    }
    metrics
}
