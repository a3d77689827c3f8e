//! Rules, and what follows from them for one request, as in Kafka's StandardAuthorizer.
//!
//! A deny that matches wins over every allow. A request is looked up by the name of its resource and
//! by who makes it, so that its cost does not grow with the rules on other resources or for others.

use imbl::{OrdMap, OrdSet};

use super::acl::{AclBinding, Operation, PatternKind, Permission, ResourceKind};

/// In a rule: every resource of the kind, or every host.
const ANY: &str = "*";
/// In a rule: everybody.
const EVERYBODY: &str = "User:*";

/// What the rules say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclDecision {
    Allowed,
    /// By a rule that denies it, or because there are rules on the resource and none allows it.
    Denied,
    /// No rule is on the resource.
    NoRule,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Acls {
    kinds: OrdMap<ResourceKind, KindRules>,
    count: usize,
}

/// The rules on resources of one kind, by the name in the rule.
#[derive(Clone, Debug, Default, PartialEq)]
struct KindRules {
    literal: OrdMap<String, RulesByPrincipal>,
    prefixed: OrdMap<String, RulesByPrincipal>,
}

type RulesByPrincipal = OrdMap<String, OrdSet<Rule>>;

/// The part of a rule that is not looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rule {
    host: String,
    operation: Operation,
    permission: Permission,
}

impl Rule {
    fn is_for_host(&self, host: &str) -> bool {
        self.host == ANY || self.host == host
    }

    /// What the rule says of an operation, if anything.
    fn verdict(&self, host: &str, operation: Operation) -> Option<Permission> {
        let applies = match self.permission {
            Permission::Allow => self.operation.implies(operation),
            Permission::Deny => self.operation.covers(operation),
        };
        (applies && self.is_for_host(host)).then_some(self.permission)
    }
}

impl KindRules {
    fn of(&self, pattern: PatternKind) -> &OrdMap<String, RulesByPrincipal> {
        match pattern {
            PatternKind::Literal => &self.literal,
            PatternKind::Prefixed => &self.prefixed,
        }
    }

    fn of_mut(&mut self, pattern: PatternKind) -> &mut OrdMap<String, RulesByPrincipal> {
        match pattern {
            PatternKind::Literal => &mut self.literal,
            PatternKind::Prefixed => &mut self.prefixed,
        }
    }

    /// The rules on a resource.
    fn on<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a RulesByPrincipal> {
        let any = (name != ANY).then(|| self.literal.get(ANY)).flatten();
        self.literal.get(name).into_iter().chain(any).chain(self.on_prefixes(name))
    }

    /// The rules with a name that `name` begins with. Each step finds the last name up to a bound: what
    /// it shares with `name` is the bound of the next, because a longer part of `name` would have been
    /// found.
    fn on_prefixes<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a RulesByPrincipal> {
        let mut bound = Some(name);
        std::iter::from_fn(move || {
            loop {
                let (prefix, rules) = self.prefixed.get_prev(bound?)?;
                if name.starts_with(prefix.as_str()) {
                    let last = prefix.char_indices().next_back();
                    bound = last.map(|(length, _)| &name[..length]);
                    return Some(rules);
                }
                bound = Some(&name[..shared_length(prefix, name)]);
            }
        })
    }
}

fn shared_length(one: &str, other: &str) -> usize {
    let shared = one.chars().zip(other.chars()).take_while(|(one, other)| one == other);
    shared.map(|(one, _)| one.len_utf8()).sum()
}

impl Acls {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn contains(&self, binding: &AclBinding) -> bool {
        let rules = self.kinds.get(&binding.resource_kind).map(|kind| kind.of(binding.pattern_kind));
        let rules = rules.and_then(|rules| rules.get(&binding.resource_name)?.get(&binding.principal));
        rules.is_some_and(|rules| rules.contains(&rule_of(binding)))
    }

    /// In their order.
    pub fn iter(&self) -> impl Iterator<Item = AclBinding> {
        self.kinds.iter().flat_map(|(kind, rules)| {
            let patterns = [PatternKind::Literal, PatternKind::Prefixed].into_iter();
            patterns.flat_map(|pattern| bindings(*kind, pattern, rules.of(pattern)))
        })
    }

    /// What the rules say of an operation on a resource.
    pub fn decide(
        &self,
        principal: &str,
        host: &str,
        operation: Operation,
        resource_kind: ResourceKind,
        resource_name: &str,
    ) -> AclDecision {
        let Some(kind) = self.kinds.get(&resource_kind) else { return AclDecision::NoRule };
        let mut decision = AclDecision::NoRule;
        for rules in kind.on(resource_name) {
            if decision == AclDecision::NoRule {
                decision = AclDecision::Denied;
            }
            for rule in rules_of(rules, principal) {
                match rule.verdict(host, operation) {
                    Some(Permission::Deny) => return AclDecision::Denied,
                    Some(Permission::Allow) => decision = AclDecision::Allowed,
                    None => {}
                }
            }
        }
        decision
    }

    /// Whether the operation is allowed on some resource of the kind, whichever it is. Only a deny that
    /// takes away all that an allow gives counts against it (Kafka's `authorizeByResourceType`).
    pub fn allows_any(
        &self,
        principal: &str,
        host: &str,
        operation: Operation,
        resource_kind: ResourceKind,
    ) -> bool {
        let Some(kind) = self.kinds.get(&resource_kind) else { return false };
        let names = |pattern, permission| {
            let applies = move |rule: &Rule| {
                rule.permission == permission && rule.operation.covers(operation) && rule.is_for_host(host)
            };
            let of_pattern = kind.of(pattern).iter();
            let named = of_pattern.filter(move |(_, rules)| rules_of(rules, principal).any(applies));
            named.map(|(name, _)| name.as_str())
        };
        let denied: Vec<_> = names(PatternKind::Literal, Permission::Deny).collect();
        let denied_prefixes: Vec<_> = names(PatternKind::Prefixed, Permission::Deny).collect();
        if denied.contains(&ANY) {
            return false;
        }
        let is_left = |name: &str| !denied_prefixes.iter().any(|prefix| name.starts_with(*prefix));
        let mut literal = names(PatternKind::Literal, Permission::Allow);
        let mut prefixed = names(PatternKind::Prefixed, Permission::Allow);
        literal.any(|name| name == ANY || (!denied.contains(&name) && is_left(name))) || prefixed.any(is_left)
    }

    /// Gives whether the rule was not there.
    pub fn insert(&mut self, binding: &AclBinding) -> bool {
        let rules = self.kinds.entry(binding.resource_kind).or_default().of_mut(binding.pattern_kind);
        let rules = rules.entry(binding.resource_name.clone()).or_default();
        let rules = rules.entry(binding.principal.clone()).or_default();
        let is_new = rules.insert(rule_of(binding)).is_none();
        self.count += usize::from(is_new);
        is_new
    }

    /// Gives whether the rule was there. Nothing is left of names that have no rule any more, because
    /// one without rules is not the same as one with rules that match nobody.
    pub fn remove(&mut self, binding: &AclBinding) -> bool {
        if !self.contains(binding) {
            return false;
        }
        let kind = self.kinds.entry(binding.resource_kind).or_default();
        let rules = kind.of_mut(binding.pattern_kind);
        let by_principal = rules.entry(binding.resource_name.clone()).or_default();
        let of_principal = by_principal.entry(binding.principal.clone()).or_default();
        of_principal.remove(&rule_of(binding));
        if of_principal.is_empty() {
            by_principal.remove(&binding.principal);
        }
        if by_principal.is_empty() {
            rules.remove(&binding.resource_name);
        }
        if kind.literal.is_empty() && kind.prefixed.is_empty() {
            self.kinds.remove(&binding.resource_kind);
        }
        self.count -= 1;
        true
    }
}

/// The rules for one principal: its own and those for everybody.
fn rules_of<'a>(rules: &'a RulesByPrincipal, principal: &str) -> impl Iterator<Item = &'a Rule> + use<'a> {
    let everybody = (principal != EVERYBODY).then(|| rules.get(EVERYBODY)).flatten();
    rules.get(principal).into_iter().chain(everybody).flatten()
}

fn rule_of(binding: &AclBinding) -> Rule {
    Rule { host: binding.host.clone(), operation: binding.operation, permission: binding.permission }
}

fn bindings(
    resource_kind: ResourceKind,
    pattern_kind: PatternKind,
    rules: &OrdMap<String, RulesByPrincipal>,
) -> impl Iterator<Item = AclBinding> {
    rules.iter().flat_map(move |(resource_name, by_principal)| {
        by_principal.iter().flat_map(move |(principal, rules)| {
            rules.iter().map(move |rule| AclBinding {
                resource_kind,
                pattern_kind,
                resource_name: resource_name.clone(),
                principal: principal.clone(),
                host: rule.host.clone(),
                operation: rule.operation,
                permission: rule.permission,
            })
        })
    })
}
