//! The medians of all rounds, and their ratio.

use serde_json::{Value, json};

use super::limits::Limits;
use super::{ProduceArgs, Round};
use crate::measure::{Rate, median_rate, rounded};

pub(super) fn report(args: &ProduceArgs, rounds: &[Round]) -> Value {
    let median = |of: fn(&Round) -> Rate| median_rate(rounds.iter().map(of));
    let produced = median(|round| round.produced);
    let librdkafka = median(|round| round.librdkafka);
    let puts = puts(rounds);
    let best_put = puts.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let limits = [
        ("null_broker", median(|round| round.limits.null_broker)),
        ("loopback", median(|round| round.limits.loopback)),
        ("put", best_put),
    ];
    let [first, others @ ..] = limits;
    let (lowest_name, lowest) = others.into_iter().fold(first, |a, b| if b.1 < a.1 { b } else { a });
    let limits = limits.map(|(name, rate)| json!({ "limit": name, "mb_per_s": rounded(rate) }));
    let puts = puts.iter().map(|(bytes, rate)| json!({ "object_bytes": bytes, "mb_per_s": rounded(*rate) }));
    let of_rounds = rounds.iter().map(|round| rounded(round.produced.megabytes_per_second()));
    json!({
        "measurement": "produce",
        "megabytes": args.megabytes,
        "rounds": rounds.len(),
        "record_bytes": args.record_bytes,
        "batch_bytes_max": args.batch_bytes,
        "connections": args.connections,
        "produce_mb_per_s": rounded(produced),
        "produce_mb_per_s_of_rounds": of_rounds.collect::<Vec<_>>(),
        "librdkafka_mb_per_s": rounded(librdkafka),
        "limits": limits,
        "puts": puts.collect::<Vec<_>>(),
        "lowest_limit": lowest_name,
        "ratio": rounded(produced / lowest),
        "librdkafka_ratio": rounded(librdkafka / lowest),
    })
}

/// The size of objects and the median rate of putting them, by size.
fn puts(rounds: &[Round]) -> Vec<(usize, f64)> {
    let limits = || rounds.iter().map(|round| &round.limits);
    let sizes = limits().next().map_or(0, |limits: &Limits| limits.puts.len());
    let median_of = |size: usize| median_rate(limits().map(|limits| limits.puts[size].rate));
    let object_bytes = |size: usize| limits().next().map_or(0, |limits| limits.puts[size].object_bytes);
    (0..sizes).map(|size| (object_bytes(size), median_of(size))).collect()
}
