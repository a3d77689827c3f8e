//! `strandline topic`: create, list, describe, delete.

use strandline_storage::log::TopicConfig;

use crate::args::{TopicArgs, TopicCommand};
use crate::failure::Failure;
use crate::kafka_client::{Admin, Endpoint, TopicSetting};
use crate::output::{Alignment, TextTable, print, print_line};

/// `strandline topic`.
pub async fn run(args: TopicArgs) -> Result<(), Failure> {
    match args.command {
        TopicCommand::Create { topic, partitions, configs, bootstrap } => {
            let mut admin = Admin::connect(&Endpoint::of(&bootstrap)?).await?;
            admin.create_topic(&topic, partitions, &configs).await?;
            print_line(&format!("created topic \"{topic}\", partitions: {partitions}"))?;
            warn_of_configs_without_effect(&configs);
            Ok(())
        }
        TopicCommand::List { bootstrap } => list(&Endpoint::of(&bootstrap)?).await,
        TopicCommand::Describe { topic, all, bootstrap } => {
            let shown = if all { Shown::AllSettings } else { Shown::ChangedSettings };
            describe(&Endpoint::of(&bootstrap)?, &topic, shown).await
        }
        TopicCommand::Delete { topic, bootstrap } => {
            Admin::connect(&Endpoint::of(&bootstrap)?).await?.delete_topic(&topic).await?;
            print_line(&format!("deleted topic \"{topic}\""))
        }
    }
}

/// Some configs are accepted and kept for the sake of tools, and change nothing yet.
fn warn_of_configs_without_effect(configs: &[(String, String)]) {
    for entry in TopicConfig::default().entries().iter().filter(|entry| !entry.effective) {
        if configs.iter().any(|(name, _)| name == entry.name) {
            eprintln!("note: {} is kept, but has no effect yet: {}", entry.name, entry.documentation);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    AllSettings,
    ChangedSettings,
}

async fn list(endpoint: &Endpoint) -> Result<(), Failure> {
    let mut admin = Admin::connect(endpoint).await?;
    let columns =
        [("topic", Alignment::Left), ("partitions", Alignment::Right), ("records", Alignment::Right)];
    let mut table = TextTable::new(&columns);
    for topic in admin.topics().await? {
        let ranges = admin.ranges(&topic).await?;
        let records: i64 = ranges.iter().map(|range| range.latest - range.earliest).sum();
        table.push(vec![topic.name, topic.partitions.len().to_string(), records.to_string()]);
    }
    print(&table.take_text())
}

async fn describe(endpoint: &Endpoint, name: &str, shown: Shown) -> Result<(), Failure> {
    let mut admin = Admin::connect(endpoint).await?;
    let topic = admin.topic(name).await?;
    let columns = [
        ("partition", Alignment::Right),
        ("first offset", Alignment::Right),
        ("next offset", Alignment::Right),
    ];
    let mut partitions = TextTable::new(&columns);
    for range in admin.ranges(&topic).await? {
        partitions.push(vec![
            range.partition.to_string(),
            range.earliest.to_string(),
            range.latest.to_string(),
        ]);
    }
    let settings = match admin.settings(name).await? {
        None => "its settings are for users who may describe-configs of it\n".to_owned(),
        Some(settings) => settings_text(settings, shown),
    };
    print(&format!("topic \"{name}\"\n\n{}\n{settings}", partitions.take_text()))
}

fn settings_text(mut settings: Vec<TopicSetting>, shown: Shown) -> String {
    settings.retain(|setting| shown == Shown::AllSettings || !setting.is_default);
    if settings.is_empty() {
        return "all settings are the defaults; --all shows them\n".to_owned();
    }
    let mut table = TextTable::new(&[("setting", Alignment::Left), ("value", Alignment::Left)]);
    for setting in settings {
        table.push(vec![setting.name, setting.value]);
    }
    table.take_text()
}
