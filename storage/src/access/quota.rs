//! Quotas by who they are for, and which of them counts for a request (Kafka's ClientQuotaManager).

use imbl::OrdMap;

/// A name, or all that have no quota of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntityName {
    Default,
    Named(String),
}

/// Whom a quota is for: a user, a client id, or both. `None` does not ask for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaEntity {
    pub user: Option<EntityName>,
    pub client_id: Option<EntityName>,
}

impl QuotaEntity {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        [&self.user, &self.client_id].into_iter().filter_map(|name| match name {
            Some(EntityName::Named(name)) => Some(name.as_str()),
            Some(EntityName::Default) | None => None,
        })
    }
}

/// Who shares what a quota allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuotaScope {
    /// All connections of the user with the client id.
    UserAndClient,
    User,
    Client,
}

/// The quota that counts for a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppliedQuota {
    pub limit: f64,
    pub scope: QuotaScope,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quotas {
    by_entity: OrdMap<QuotaEntity, OrdMap<String, f64>>,
    count: usize,
}

impl Quotas {
    /// How many values there are.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Entity, key and value of each, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&QuotaEntity, &str, f64)> {
        let entities = self.by_entity.iter();
        entities.flat_map(|(entity, values)| values.iter().map(move |(key, value)| (entity, &**key, *value)))
    }

    pub fn get(&self, entity: &QuotaEntity, key: &str) -> Option<f64> {
        self.by_entity.get(entity)?.get(key).copied()
    }

    /// The value of a key that counts for a request: that of the first entity which has one, from user
    /// and client id down to the default of all client ids.
    pub fn applied(&self, key: &str, user: &str, client_id: &str) -> Option<AppliedQuota> {
        if self.is_empty() {
            return None;
        }
        let user_names = [EntityName::Named(user.to_owned()), EntityName::Default].map(Some);
        let client_names = [EntityName::Named(client_id.to_owned()), EntityName::Default].map(Some);
        for user in user_names.into_iter().chain([None]) {
            for client_id in client_names.iter().cloned().chain([None]) {
                let scope = match (&user, &client_id) {
                    (Some(_), Some(_)) => QuotaScope::UserAndClient,
                    (Some(_), None) => QuotaScope::User,
                    (None, _) => QuotaScope::Client,
                };
                if let Some(limit) = self.get(&QuotaEntity { user: user.clone(), client_id }, key) {
                    return Some(AppliedQuota { limit, scope });
                }
            }
        }
        None
    }

    pub(super) fn set(&mut self, entity: &QuotaEntity, key: &str, value: Option<f64>) {
        let values = self.by_entity.entry(entity.clone()).or_default();
        let before = values.len();
        match value {
            Some(value) => values.insert(key.to_owned(), value),
            None => values.remove(key),
        };
        let after = values.len();
        if after == 0 {
            self.by_entity.remove(entity);
        }
        self.count = self.count - before + after;
    }
}
