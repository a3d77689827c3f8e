//! `strandline group`: list, describe, reset, delete.

use std::collections::BTreeSet;

use strandline_storage::seam::Seams;

use crate::args::{GroupArgs, GroupCommand, ResetTo, TailFrom};
use crate::failure::Failure;
use crate::kafka_client::{Admin, Endpoint, GroupMember, GroupOffset, PartitionRange, TopicSummary};
use crate::output::{Alignment, TextTable, print, print_line};

/// What is printed for something that is not there.
const NONE: &str = "-";

/// `strandline group`.
pub async fn run(args: GroupArgs) -> Result<(), Failure> {
    match args.command {
        GroupCommand::List { bootstrap } => list(Admin::connect(&Endpoint::of(&bootstrap)?).await?).await,
        GroupCommand::Describe { group, bootstrap } => {
            describe(Admin::connect(&Endpoint::of(&bootstrap)?).await?, &group).await
        }
        GroupCommand::Reset { group, to, topics, dry_run, bootstrap } => {
            let admin = Admin::connect(&Endpoint::of(&bootstrap)?).await?;
            let mut reset = Reset { admin, group, to, topics };
            let plan = reset.plan().await?;
            if dry_run { Ok(()) } else { reset.commit(&plan).await }
        }
        GroupCommand::Delete { group, bootstrap } => {
            Admin::connect(&Endpoint::of(&bootstrap)?).await?.delete_group(&group).await?;
            print_line(&format!("deleted group \"{group}\""))
        }
    }
}

async fn list(mut admin: Admin) -> Result<(), Failure> {
    let columns = ["group", "protocol", "type", "state"].map(|name| (name, Alignment::Left));
    let mut table = TextTable::new(&columns);
    for group in admin.groups().await? {
        table.push(vec![group.name, group.group_type, or_none(group.protocol_type), group.state]);
    }
    print(&table.take_text())
}

async fn describe(mut admin: Admin, name: &str) -> Result<(), Failure> {
    let group = admin.group(name).await?;
    let members = admin.group_members(&group).await?;
    let committed = admin.committed(name).await?;
    let offsets = offsets_table(&mut admin, &committed, &members).await?;
    let columns = ["member", "instance", "client", "host", "partitions"].map(|name| (name, Alignment::Left));
    let mut table = TextTable::new(&columns);
    for member in members {
        let partitions: usize = member.partitions.iter().map(|(_, partitions)| partitions.len()).sum();
        let instance_id = or_none(member.instance_id.unwrap_or_default());
        table.push(vec![
            member.member_id,
            instance_id,
            member.client_id,
            member.host,
            partitions.to_string(),
        ]);
    }
    let protocol_type = or_none(group.protocol_type);
    let head = format!(
        "group \"{name}\"\nstate {}, protocol {}, type {protocol_type}",
        group.state, group.group_type
    );
    print(&format!("{head}\n\n{offsets}\n{}", table.take_text()))
}

/// Every partition that was committed or is assigned.
async fn offsets_table(
    admin: &mut Admin,
    committed: &[GroupOffset],
    members: &[GroupMember],
) -> Result<String, Failure> {
    let assigned = members.iter().flat_map(|member| {
        let topics = member.partitions.iter();
        topics.flat_map(|(topic, partitions)| partitions.iter().map(move |it| (topic.clone(), *it)))
    });
    let places = committed.iter().map(|it| (it.topic.clone(), it.partition)).chain(assigned);
    let places: BTreeSet<_> = places.collect();
    let columns = [
        ("topic", Alignment::Left),
        ("partition", Alignment::Right),
        ("committed", Alignment::Right),
        ("end", Alignment::Right),
        ("lag", Alignment::Right),
        ("member", Alignment::Left),
    ];
    let mut table = TextTable::new(&columns);
    let mut known: Option<(String, Vec<PartitionRange>)> = None;
    for (topic, partition) in places {
        if known.as_ref().is_none_or(|(name, _)| *name != topic) {
            known = Some((topic.clone(), ranges(admin, &topic).await?));
        }
        let ranges = known.as_ref().map_or(&[][..], |(_, ranges)| ranges);
        let end = ranges.iter().find(|range| range.partition == partition).map(|range| range.latest);
        let is_here = |it: &&GroupOffset| it.topic == topic && it.partition == partition;
        let offset = committed.iter().find(is_here).map(|it| it.offset);
        let has = |member: &&GroupMember| {
            member.partitions.iter().any(|(name, all)| *name == topic && all.contains(&partition))
        };
        let member = members.iter().find(has).map_or(NONE, |member| &member.member_id).to_owned();
        let lag = offset.zip(end).map(|(offset, end)| (end - offset).max(0));
        let number = |number: Option<i64>| number.map_or_else(|| NONE.to_owned(), |it| it.to_string());
        table.push(vec![topic, partition.to_string(), number(offset), number(end), number(lag), member]);
    }
    Ok(table.take_text())
}

/// None for a topic that is not there any more.
async fn ranges(admin: &mut Admin, topic: &str) -> Result<Vec<PartitionRange>, Failure> {
    let topics = admin.topics().await?;
    match topics.iter().find(|it| it.name == topic) {
        Some(topic) => Ok(admin.ranges(topic).await?),
        None => Ok(Vec::new()),
    }
}

fn or_none(text: String) -> String {
    if text.is_empty() { NONE.to_owned() } else { text }
}

/// A group whose offsets are to be moved.
struct Reset {
    admin: Admin,
    group: String,
    to: ResetTo,
    topics: Vec<String>,
}

impl Reset {
    /// Prints where the group is and where it is to be.
    async fn plan(&mut self) -> Result<Vec<GroupOffset>, Failure> {
        let group = self.group.as_str();
        let known = self.admin.groups().await?.into_iter().find(|it| it.name == group);
        if let Some(known) = known.filter(|known| !known.is_empty()) {
            let state = known.state;
            return Err(Failure::failed(format!(
                "group \"{group}\" has members (state {state}): stop them first"
            )));
        }
        let committed = self.admin.committed(group).await?;
        let columns = [
            ("topic", Alignment::Left),
            ("partition", Alignment::Right),
            ("committed", Alignment::Right),
            ("new", Alignment::Right),
        ];
        let mut table = TextTable::new(&columns);
        let mut plan = Vec::new();
        for name in self.names(&committed)? {
            let topic = self.admin.topic(&name).await?;
            for (partition, offset) in self.offsets(&topic).await? {
                let before = committed.iter().find(|it| it.topic == name && it.partition == partition);
                let before = before.map_or_else(|| NONE.to_owned(), |it| it.offset.to_string());
                table.push(vec![name.clone(), partition.to_string(), before, offset.to_string()]);
                plan.push(GroupOffset { topic: name.clone(), partition, offset });
            }
        }
        print(&table.take_text())?;
        Ok(plan)
    }

    /// The topics that are named, else those that the group has committed.
    fn names(&self, committed: &[GroupOffset]) -> Result<BTreeSet<String>, Failure> {
        let named: BTreeSet<_> = self.topics.iter().cloned().collect();
        if !named.is_empty() {
            return Ok(named);
        }
        let found: BTreeSet<_> = committed.iter().map(|it| it.topic.clone()).collect();
        if found.is_empty() {
            let group = &self.group;
            return Err(Failure::Usage(format!(
                "group \"{group}\" has committed nothing: name topics with --topic"
            )));
        }
        Ok(found)
    }

    /// Where the group is to be in each partition: nowhere that there is nothing.
    async fn offsets(&mut self, topic: &TopicSummary) -> Result<Vec<(i32, i64)>, Failure> {
        let at = match self.to.0 {
            TailFrom::Time(epoch_ms) => Some(epoch_ms),
            TailFrom::Ago(duration) => {
                Some(Seams::system().clock.now_ms().saturating_sub(duration.as_millis()))
            }
            TailFrom::Beginning | TailFrom::End | TailFrom::Offset(_) => None,
        };
        if let Some(epoch_ms) = at {
            return Ok(self.admin.offsets_at(topic, epoch_ms.max(0)).await?);
        }
        let ranges = self.admin.ranges(topic).await?;
        let offset = |range: PartitionRange| match self.to.0 {
            TailFrom::Beginning => range.earliest,
            TailFrom::Offset(offset) => offset.clamp(range.earliest, range.latest),
            TailFrom::End | TailFrom::Ago(_) | TailFrom::Time(_) => range.latest,
        };
        Ok(ranges.into_iter().map(|range| (range.partition, offset(range))).collect())
    }

    async fn commit(&mut self, plan: &[GroupOffset]) -> Result<(), Failure> {
        self.admin.commit(&self.group, plan).await?;
        print_line(&format!("reset group \"{}\" in {} partitions", self.group, plan.len()))
    }
}
