//! Rules against a model that looks at all of them, quotas by their precedence, and bounds.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const ALICE: &str = "User:alice";
const HOST: &str = "10.0.0.1";

fn binding(
    pattern_kind: PatternKind,
    name: &str,
    operation: Operation,
    permission: Permission,
) -> AclBinding {
    AclBinding {
        resource_kind: ResourceKind::Topic,
        pattern_kind,
        resource_name: name.to_owned(),
        principal: ALICE.to_owned(),
        host: "*".to_owned(),
        operation,
        permission,
    }
}

fn allow(name: &str, operation: Operation) -> AclBinding {
    binding(PatternKind::Literal, name, operation, Permission::Allow)
}

fn deny(name: &str, operation: Operation) -> AclBinding {
    binding(PatternKind::Literal, name, operation, Permission::Deny)
}

fn prefixed(binding: AclBinding) -> AclBinding {
    AclBinding { pattern_kind: PatternKind::Prefixed, ..binding }
}

fn acls(bindings: &[AclBinding]) -> Acls {
    let mut acls = Acls::default();
    bindings.iter().for_each(|binding| assert!(acls.insert(binding)));
    acls
}

fn decide(bindings: &[AclBinding], operation: Operation, name: &str) -> AclDecision {
    acls(bindings).decide(ALICE, HOST, operation, ResourceKind::Topic, name)
}

#[test]
fn without_a_rule_on_the_resource_there_is_no_decision() {
    assert_eq!(decide(&[], Operation::Read, "t"), AclDecision::NoRule);
    let elsewhere = AclBinding { resource_kind: ResourceKind::Group, ..allow("t", Operation::Read) };
    assert_eq!(decide(&[elsewhere], Operation::Read, "t"), AclDecision::NoRule);
    assert_eq!(decide(&[allow("u", Operation::Read)], Operation::Read, "t"), AclDecision::NoRule);
    assert_eq!(decide(&[allow("t", Operation::Read)], Operation::Write, "t"), AclDecision::Denied);
}

#[test]
fn a_deny_wins_wherever_it_is() {
    let allowed = [allow("t", Operation::All), allow("*", Operation::Read)];
    assert_eq!(decide(&allowed, Operation::Read, "t"), AclDecision::Allowed);
    for deny in [
        deny("t", Operation::Read),
        deny("*", Operation::Read),
        prefixed(deny("", Operation::Read)),
        prefixed(deny("t", Operation::All)),
        AclBinding { principal: "User:*".to_owned(), ..deny("t", Operation::Read) },
        AclBinding { host: HOST.to_owned(), ..deny("t", Operation::Read) },
    ] {
        let bindings = [allowed[0].clone(), allowed[1].clone(), deny];
        assert_eq!(decide(&bindings, Operation::Read, "t"), AclDecision::Denied);
    }
}

#[test]
fn rules_for_others_or_for_other_hosts_do_not_count() {
    let bob = AclBinding { principal: "User:bob".to_owned(), ..deny("t", Operation::Read) };
    let elsewhere = AclBinding { host: "10.0.0.2".to_owned(), ..deny("t", Operation::Read) };
    let bindings = [bob, elsewhere, allow("t", Operation::Read)];
    assert_eq!(decide(&bindings, Operation::Read, "t"), AclDecision::Allowed);
    assert_eq!(decide(&bindings[..2], Operation::Read, "t"), AclDecision::Denied);
}

#[test]
fn prefixes_of_every_length_are_found_and_nothing_else() {
    for prefix in ["", "o", "or", "orders", "orders.e", "orders.eu"] {
        let others = ["orders.eu2", "orders.a", "ordert", "p", "orderr", "\u{10ffff}"];
        let others = others.map(|other| prefixed(allow(other, Operation::Read)));
        let bindings = [&others[..], &[prefixed(allow(prefix, Operation::Read))]].concat();
        assert_eq!(decide(&bindings, Operation::Read, "orders.eu"), AclDecision::Allowed, "{prefix}");
        assert_eq!(decide(&others, Operation::Read, "orders.eu"), AclDecision::NoRule);
    }
    // A literal `*` is every name, a prefix of `*` is none of them.
    assert_eq!(decide(&[prefixed(allow("*", Operation::Read))], Operation::Read, "t"), AclDecision::NoRule);
}

#[test]
fn only_what_is_allowed_implies_more() {
    use Operation::*;
    for operation in [Read, Write, Delete, Alter, Describe, All] {
        assert_eq!(decide(&[allow("t", operation)], Describe, "t"), AclDecision::Allowed);
    }
    for operation in [Create, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite] {
        assert_eq!(decide(&[allow("t", operation)], Describe, "t"), AclDecision::Denied);
    }
    assert_eq!(decide(&[allow("t", AlterConfigs)], DescribeConfigs, "t"), AclDecision::Allowed);
    assert_eq!(decide(&[allow("t", Alter)], DescribeConfigs, "t"), AclDecision::Denied);
    let denied = [allow("t", Describe), deny("t", Read)];
    assert_eq!(decide(&denied, Describe, "t"), AclDecision::Allowed);
    assert_eq!(decide(&[allow("t", Read), deny("t", Describe)], Describe, "t"), AclDecision::Denied);
}

#[test]
fn some_resource_is_allowed_unless_a_deny_takes_all_of_it() {
    let any = |bindings: &[AclBinding]| {
        acls(bindings).allows_any(ALICE, HOST, Operation::Write, ResourceKind::Topic)
    };
    let write = |name| allow(name, Operation::Write);
    let no_write = |name| deny(name, Operation::Write);
    assert!(!any(&[]));
    assert!(any(&[write("t")]));
    assert!(any(&[prefixed(write("t")), no_write("t")]));
    assert!(any(&[write("*"), no_write("t")]));
    assert!(any(&[write("t"), write("u"), no_write("t")]));
    assert!(!any(&[write("t"), no_write("t")]));
    assert!(!any(&[write("topic"), prefixed(write("topics")), prefixed(no_write("top"))]));
    assert!(!any(&[write("t"), prefixed(write("u")), no_write("*")]));
    assert!(!any(&[allow("t", Operation::Read)]));
    assert!(!any(&[AclBinding { host: "10.0.0.2".to_owned(), ..write("t") }]));
}

#[test]
fn nothing_is_left_of_rules_that_were_removed() {
    let bindings = [allow("t", Operation::Read), prefixed(allow("t", Operation::Read))];
    let mut acls = acls(&bindings);
    assert!(!acls.insert(&bindings[0]));
    assert_eq!(acls.len(), 2);
    assert!(!acls.remove(&deny("t", Operation::Read)));
    assert!(bindings.iter().all(|binding| acls.contains(binding) && acls.remove(binding)));
    let decision = acls.decide(ALICE, HOST, Operation::Read, ResourceKind::Topic, "t");
    assert_eq!((decision, acls.len(), acls.iter().next()), (AclDecision::NoRule, 0, None));
}

fn any_binding() -> impl Strategy<Value = AclBinding> {
    use Operation::*;
    let names = prop_oneof![Just("*".to_owned()), "[ab]{0,3}"];
    let patterns = prop_oneof![Just(PatternKind::Literal), Just(PatternKind::Prefixed)];
    let principals = prop_oneof![Just(ALICE), Just("User:bob"), Just("User:*")];
    let hosts = prop_oneof![Just("*"), Just(HOST), Just("10.0.0.2")];
    let operations = prop::sample::select(vec![All, Read, Write, Describe, DescribeConfigs, AlterConfigs]);
    let permissions = prop_oneof![2 => Just(Permission::Allow), 1 => Just(Permission::Deny)];
    (patterns, names, principals, hosts, operations, permissions).prop_map(
        |(pattern_kind, resource_name, principal, host, operation, permission)| AclBinding {
            principal: principal.to_owned(),
            host: host.to_owned(),
            ..binding(pattern_kind, &resource_name, operation, permission)
        },
    )
}

/// Looks at every rule.
fn model(bindings: &BTreeSet<AclBinding>, operation: Operation, name: &str) -> AclDecision {
    let on_name = |binding: &&AclBinding| match binding.pattern_kind {
        PatternKind::Literal => ["*", name].contains(&&*binding.resource_name),
        PatternKind::Prefixed => name.starts_with(&binding.resource_name),
    };
    let on_name: Vec<_> = bindings.iter().filter(on_name).collect();
    let matches = |permission| {
        on_name.iter().any(|binding| {
            binding.permission == permission
                && [ALICE, "User:*"].contains(&&*binding.principal)
                && ["*", HOST].contains(&&*binding.host)
                && match permission {
                    Permission::Allow => binding.operation.implies(operation),
                    Permission::Deny => binding.operation.covers(operation),
                }
        })
    };
    match (matches(Permission::Deny), matches(Permission::Allow), on_name.is_empty()) {
        (true, ..) => AclDecision::Denied,
        (false, true, _) => AclDecision::Allowed,
        (false, false, true) => AclDecision::NoRule,
        (false, false, false) => AclDecision::Denied,
    }
}

proptest! {
    #[test]
    fn decisions_are_those_of_a_model_that_looks_at_all_rules(
        bindings in prop::collection::vec(any_binding(), 0..12),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        name in "[ab]{1,4}",
    ) {
        let (mut acls, mut expected) = (Acls::default(), BTreeSet::new());
        for binding in &bindings {
            prop_assert_eq!(acls.insert(binding), expected.insert(binding.clone()));
        }
        for index in removed.iter().filter(|_| !bindings.is_empty()) {
            let binding = index.get(&bindings);
            prop_assert_eq!(acls.remove(binding), expected.remove(binding));
        }
        prop_assert_eq!(acls.len(), expected.len());
        prop_assert!(acls.iter().eq(expected.iter().cloned()));
        for operation in [Operation::Read, Operation::Describe, Operation::DescribeConfigs] {
            let decision = acls.decide(ALICE, HOST, operation, ResourceKind::Topic, &name);
            prop_assert_eq!(decision, model(&expected, operation, &name));
        }
    }
}

#[test]
fn super_users_pass_every_rule_and_the_rest_is_a_setting() {
    let access = |bindings: &[AclBinding]| Access { acls: acls(bindings), ..Access::default() };
    let allows = |authorizer: &Authorizer, access: &Access, principal| {
        let operation = Operation::Read;
        let (resource_kind, resource_name) = (ResourceKind::Topic, "t");
        let request = AccessRequest { principal, host: HOST, operation, resource_kind, resource_name };
        authorizer.allows(access, &request)
    };
    let strict = Authorizer { super_users: vec!["admin".to_owned()], ..Authorizer::default() };
    let open = Authorizer { without_rules: WithoutRules::Allow, ..strict.clone() };
    let denied = access(&[AclBinding { principal: "User:*".to_owned(), ..deny("*", Operation::All) }]);
    assert!(allows(&strict, &denied, "User:admin"));
    assert!(!allows(&strict, &denied, "admin"));
    assert!(!allows(&open, &denied, ALICE));
    assert!(!allows(&strict, &access(&[]), ALICE));
    assert!(allows(&open, &access(&[]), ALICE));
    assert!(!allows(&open, &access(&[allow("t", Operation::Write)]), ALICE));
    assert!(allows(&strict, &access(&[allow("t", Operation::Read)]), ALICE));
}

fn entity(user: Option<&str>, client_id: Option<&str>) -> QuotaEntity {
    let name = |name: &str| match name {
        "<default>" => EntityName::Default,
        _ => EntityName::Named(name.to_owned()),
    };
    QuotaEntity { user: user.map(name), client_id: client_id.map(name) }
}

#[test]
fn the_most_specific_quota_counts() {
    let order = [
        (Some("u"), Some("c"), QuotaScope::UserAndClient),
        (Some("u"), Some("<default>"), QuotaScope::UserAndClient),
        (Some("u"), None, QuotaScope::User),
        (Some("<default>"), Some("c"), QuotaScope::UserAndClient),
        (Some("<default>"), Some("<default>"), QuotaScope::UserAndClient),
        (Some("<default>"), None, QuotaScope::User),
        (None, Some("c"), QuotaScope::Client),
        (None, Some("<default>"), QuotaScope::Client),
    ];
    let mut quotas = Quotas::default();
    // From the least specific one on, each new one takes over.
    for (rank, (user, client_id, scope)) in order.iter().enumerate().rev() {
        quotas.set(&entity(*user, *client_id), "producer_byte_rate", Some(rank as f64));
        let applied = quotas.applied("producer_byte_rate", "u", "c");
        assert_eq!(applied, Some(AppliedQuota { limit: rank as f64, scope: *scope }));
    }
    assert_eq!(quotas.applied("consumer_byte_rate", "u", "c"), None);
    assert_eq!(quotas.applied("producer_byte_rate", "v", "c").map(|quota| quota.limit), Some(3.0));
    assert_eq!(quotas.applied("producer_byte_rate", "u", "d").map(|quota| quota.limit), Some(1.0));
    assert_eq!(quotas.len(), 8);
    for (user, client_id, _) in order {
        quotas.set(&entity(user, client_id), "producer_byte_rate", None);
    }
    assert_eq!((quotas.len(), quotas.iter().next()), (0, None));
    assert_eq!(quotas, Quotas::default());
}

fn user(name: &str) -> User {
    User { name: name.to_owned(), credentials: Vec::new() }
}

#[test]
fn changes_are_applied_in_their_order() {
    let quota =
        |value| AccessChange::SetQuota { entity: entity(Some("u"), None), key: "k".to_owned(), value };
    let rule = allow("t", Operation::Read);
    let access = Access::default();
    let changes = [
        AccessChange::PutUser(user("u")),
        AccessChange::AddAcls(vec![rule.clone(), rule.clone()]),
        quota(Some(1.5)),
    ];
    let access = access.with_changes(changes.to_vec()).unwrap().0;
    assert_eq!((access.users.len(), access.acls.len(), access.quotas.len()), (1, 1, 1));
    let changes =
        [AccessChange::RemoveUser("u".to_owned()), AccessChange::RemoveAcls(vec![rule]), quota(None)];
    assert_eq!(access.with_changes(changes.to_vec()).unwrap().0, Access::default());
    // What is not there is removed already.
    assert_eq!(Access::default().with_changes(changes.to_vec()).unwrap(), (Access::default(), Vec::new()));
}

#[test]
fn what_is_out_of_bounds_is_refused_by_name() {
    let refused =
        |change: AccessChange| Access::default().with_changes(vec![change]).unwrap_err().to_string();
    let limit = "has 0 bytes, it may have 1 to 1024";
    assert_eq!(refused(AccessChange::PutUser(user(""))), format!("the name of a user {limit}"));
    let long = AccessChange::AddAcls(vec![allow(&"t".repeat(1025), Operation::Read)]);
    assert_eq!(refused(long), "the name of a resource has 1025 bytes, it may have 1 to 1024");
    let quota = |entity, value| AccessChange::SetQuota { entity, key: "k".to_owned(), value: Some(value) };
    assert_eq!(refused(quota(entity(None, None), 1.0)), AccessError::NoEntity.to_string());
    for value in [0.0, -1.0, f64::INFINITY, f64::NAN] {
        let refusal = refused(quota(entity(Some("<default>"), None), value));
        assert_eq!(refusal, format!("quota k is {value}, it has to be a finite number above 0"));
    }
    let credential = ScramCredential::mock(ScramMechanism::Sha256, b"secret", "u");
    let twice = User { credentials: vec![credential.clone(), credential.clone()], ..user("u") };
    assert_eq!(refused(AccessChange::PutUser(twice)), "user \"u\" has two credentials of SCRAM-SHA-256");
    let weak = User { credentials: vec![ScramCredential { iterations: 1, ..credential }], ..user("u") };
    let refusal = refused(AccessChange::PutUser(weak));
    assert_eq!(refusal, "user \"u\": 1 iterations are outside of 4096 to 16384");
}

#[test]
fn there_are_no_more_rules_than_the_limit() {
    let rules = |range: std::ops::Range<usize>| {
        AccessChange::AddAcls(range.map(|number| allow(&number.to_string(), Operation::Read)).collect())
    };
    let full = Access::default().with_changes(vec![rules(0..ACL_BINDINGS_MAX)]).unwrap().0;
    assert_eq!(full.with_changes(vec![rules(0..1)]).unwrap(), (full.clone(), Vec::new()));
    let refused = full.with_changes(vec![rules(ACL_BINDINGS_MAX..ACL_BINDINGS_MAX + 1)]).unwrap_err();
    assert_eq!(refused.to_string(), "limit of 100000 rules reached");
}
