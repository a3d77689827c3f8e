//! `strandline acl`: add, list, remove.

use strandline_storage::access::{AclBinding, Operation, PatternKind, Permission, ResourceKind};

use crate::args::{AclArgs, AclCommand, OPERATIONS, ResourceArgs, RuleArgs};
use crate::failure::Failure;
use crate::kafka_client::{Admin, Endpoint, RuleFilter};
use crate::output::{Alignment, TextTable, print, print_line};

/// The name of the one resource of its kind.
const CLUSTER: &str = "kafka-cluster";
const USER_PREFIX: &str = "User:";

/// `strandline acl`.
pub async fn run(args: AclArgs) -> Result<(), Failure> {
    match args.command {
        AclCommand::Add { rule, bootstrap } => {
            let rules = rules(&rule)?;
            Admin::connect(&Endpoint::of(&bootstrap)?).await?.add_rules(&rules).await?;
            print(&table(rules))
        }
        AclCommand::List { resource, principal, bootstrap } => {
            let mut filter =
                RuleFilter { principal: principal.as_deref().map(principal_of), ..RuleFilter::default() };
            if let Some((kind, name)) = resource_of(&resource) {
                filter.resource_kind = Some(kind);
                filter.resource_name = Some(name);
                filter.pattern_kind = resource.prefixed.then_some(PatternKind::Prefixed);
            }
            let rules = Admin::connect(&Endpoint::of(&bootstrap)?).await?.rules(&filter).await?;
            print(&table(rules))
        }
        AclCommand::Remove { rule, bootstrap } => {
            let rules = rules(&rule)?;
            let removed = Admin::connect(&Endpoint::of(&bootstrap)?).await?.remove_rules(&rules).await?;
            match removed {
                0 => {
                    Err(Failure::failed("there is no such rule; `strandline acl list` shows those that are"))
                }
                removed => print_line(&format!("removed {removed} of {}", rules.len())),
            }
        }
    }
}

/// One rule for each operation.
fn rules(args: &RuleArgs) -> Result<Vec<AclBinding>, Failure> {
    let (resource_kind, resource_name) = resource_of(&args.resource).ok_or_else(|| {
        Failure::Usage(
            "what is the rule about? add --topic NAME, --group NAME, --transactional-id NAME or --cluster"
                .to_owned(),
        )
    })?;
    let (permission, name) = match (&args.effect.allow, &args.effect.deny) {
        (Some(name), _) => (Permission::Allow, name),
        (None, Some(name)) => (Permission::Deny, name),
        (None, None) => unreachable!("one of the two flags is required"),
    };
    let rule = |operation: &Operation| AclBinding {
        resource_kind,
        pattern_kind: if args.resource.prefixed { PatternKind::Prefixed } else { PatternKind::Literal },
        resource_name: resource_name.clone(),
        principal: principal_of(name),
        host: args.host.clone(),
        operation: *operation,
        permission,
    };
    Ok(args.operations.iter().map(rule).collect())
}

fn resource_of(args: &ResourceArgs) -> Option<(ResourceKind, String)> {
    let named = [
        (ResourceKind::Topic, &args.topic),
        (ResourceKind::Group, &args.group),
        (ResourceKind::TransactionalId, &args.transactional_id),
    ];
    let named = named.into_iter().find_map(|(kind, name)| Some((kind, name.clone()?)));
    named.or_else(|| args.cluster.then(|| (ResourceKind::Cluster, CLUSTER.to_owned())))
}

/// Rules are for principals, and all of them are users.
fn principal_of(name: &str) -> String {
    if name.starts_with(USER_PREFIX) { name.to_owned() } else { format!("{USER_PREFIX}{name}") }
}

fn table(rules: Vec<AclBinding>) -> String {
    let columns = ["resource", "name", "pattern", "rule", "principal", "operation", "host"];
    let mut table = TextTable::new(&columns.map(|name| (name, Alignment::Left)));
    for rule in rules {
        let resource = match rule.resource_kind {
            ResourceKind::Topic => "topic",
            ResourceKind::Group => "group",
            ResourceKind::Cluster => "cluster",
            ResourceKind::TransactionalId => "transactional id",
        };
        let pattern = match rule.pattern_kind {
            PatternKind::Literal => "literal",
            PatternKind::Prefixed => "prefixed",
        };
        let effect = match rule.permission {
            Permission::Allow => "allow",
            Permission::Deny => "deny",
        };
        let operation = OPERATIONS.iter().find(|(known, _)| *known == rule.operation);
        let operation = operation.map_or("", |(_, name)| name);
        let cells = [resource, &rule.resource_name, pattern, effect, &rule.principal, operation, &rule.host];
        table.push(cells.map(str::to_owned).to_vec());
    }
    table.take_text()
}
