//! Changes of users, rules and quotas: what the events of the log say, and the bounds that a change
//! has to keep to.

use thiserror::Error;

use super::acl::AclBinding;
use super::credential::CredentialError;
use super::quota::QuotaEntity;
use super::user::User;
use super::{ACL_BINDINGS_MAX, Access, CHANGE_BYTES_MAX, NAME_BYTES_MAX, QUOTAS_MAX, USERS_MAX};

#[derive(Clone, Debug, PartialEq)]
pub enum AccessChange {
    /// In the place of the one of the same name, if there is one.
    PutUser(User),
    RemoveUser(String),
    AddAcls(Vec<AclBinding>),
    RemoveAcls(Vec<AclBinding>),
    SetQuota {
        entity: QuotaEntity,
        key: String,
        /// `None` takes it away.
        value: Option<f64>,
    },
}

/// Values are finite, as the check of each change sees to, so that each is equal to itself.
impl Eq for AccessChange {}

/// Why a change was refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum AccessError {
    #[error("limit of {max} {what} reached")]
    TooMany { what: &'static str, max: usize },
    #[error("{what} has {length} bytes, it may have 1 to {max}")]
    NameLength { what: &'static str, length: usize, max: usize },
    #[error("{what} has the character NUL")]
    Nul { what: &'static str },
    #[error("the change has {bytes} bytes, the limit is {max}")]
    TooLarge { bytes: usize, max: usize },
    #[error("user \"{user}\": {source}")]
    Credential { user: String, source: CredentialError },
    #[error("user \"{user}\" has two credentials of {mechanism}")]
    TwoCredentials { user: String, mechanism: &'static str },
    #[error("a quota is for a user, a client id, or both")]
    NoEntity,
    #[error("quota {key} is {value}, it has to be a finite number above 0")]
    QuotaValue { key: String, value: f64 },
}

impl Access {
    /// What it is after some changes, and those of them that change anything.
    ///
    /// # Errors
    /// A change that is none, or that goes over a bound.
    pub fn with_changes(&self, changes: Vec<AccessChange>) -> Result<(Self, Vec<AccessChange>), AccessError> {
        let (mut changed, mut effective, mut bytes) = (self.clone(), Vec::new(), 0);
        for change in changes {
            change.check()?;
            if changed.is_changed_by(&change) {
                changed.apply(&change);
                bytes += change.size_bytes();
                effective.push(change);
            }
        }
        if bytes > CHANGE_BYTES_MAX {
            return Err(AccessError::TooLarge { bytes, max: CHANGE_BYTES_MAX });
        }
        check_count("users", changed.users.len(), self.users.len(), USERS_MAX)?;
        check_count("rules", changed.acls.len(), self.acls.len(), ACL_BINDINGS_MAX)?;
        check_count("quotas", changed.quotas.len(), self.quotas.len(), QUOTAS_MAX)?;
        Ok((changed, effective))
    }

    fn is_changed_by(&self, change: &AccessChange) -> bool {
        match change {
            AccessChange::PutUser(user) => {
                self.users.get(&user.name).is_none_or(|current| **current != *user)
            }
            AccessChange::RemoveUser(name) => self.users.get(name).is_some(),
            AccessChange::AddAcls(bindings) => bindings.iter().any(|binding| !self.acls.contains(binding)),
            AccessChange::RemoveAcls(bindings) => bindings.iter().any(|binding| self.acls.contains(binding)),
            AccessChange::SetQuota { entity, key, value } => self.quotas.get(entity, key) != *value,
        }
    }

    /// Applies a change that was checked. What is to be removed and is not there is no matter.
    pub(crate) fn apply(&mut self, change: &AccessChange) {
        match change {
            AccessChange::PutUser(user) => self.users.put(user.clone()),
            AccessChange::RemoveUser(name) => self.users.remove(name),
            AccessChange::AddAcls(bindings) => bindings.iter().for_each(|binding| {
                self.acls.insert(binding);
            }),
            AccessChange::RemoveAcls(bindings) => bindings.iter().for_each(|binding| {
                self.acls.remove(binding);
            }),
            AccessChange::SetQuota { entity, key, value } => self.quotas.set(entity, key, *value),
        }
    }
}

/// A log that is over a bound, because it was written with another one, may still shrink.
fn check_count(what: &'static str, count: usize, before: usize, max: usize) -> Result<(), AccessError> {
    match count > max && count > before {
        true => Err(AccessError::TooMany { what, max }),
        false => Ok(()),
    }
}

impl AccessChange {
    /// About what it takes in the log.
    fn size_bytes(&self) -> usize {
        const FIXED: usize = 32;
        let of_user = |user: &User| user.name.len() + user.credentials.len() * 8 * FIXED;
        let of_binding = |binding: &AclBinding| {
            FIXED + binding.resource_name.len() + binding.principal.len() + binding.host.len()
        };
        FIXED
            + match self {
                Self::PutUser(user) => of_user(user),
                Self::RemoveUser(name) => name.len(),
                Self::AddAcls(bindings) | Self::RemoveAcls(bindings) => bindings.iter().map(of_binding).sum(),
                Self::SetQuota { entity, key, .. } => key.len() + entity.names().map(str::len).sum::<usize>(),
            }
    }

    /// Checks what can be checked without what was there before.
    ///
    /// # Errors
    /// A name, a credential or a value out of its bounds.
    pub(crate) fn check(&self) -> Result<(), AccessError> {
        match self {
            Self::PutUser(user) => check_user(user),
            Self::RemoveUser(name) => check_name("the name of a user", name),
            Self::AddAcls(bindings) | Self::RemoveAcls(bindings) => {
                bindings.iter().try_for_each(check_binding)
            }
            Self::SetQuota { entity, key, value } => check_quota(entity, key, *value),
        }
    }
}

/// Separates the parts of keys, so a name may not have it.
fn check_name(what: &'static str, name: &str) -> Result<(), AccessError> {
    let (length, max) = (name.len(), NAME_BYTES_MAX);
    if length == 0 || length > max {
        return Err(AccessError::NameLength { what, length, max });
    }
    match name.contains('\0') {
        true => Err(AccessError::Nul { what }),
        false => Ok(()),
    }
}

fn check_user(user: &User) -> Result<(), AccessError> {
    check_name("the name of a user", &user.name)?;
    for (index, credential) in user.credentials.iter().enumerate() {
        let name = || user.name.clone();
        credential.check().map_err(|source| AccessError::Credential { user: name(), source })?;
        if user.credentials[..index].iter().any(|other| other.mechanism == credential.mechanism) {
            let mechanism = credential.mechanism.name();
            return Err(AccessError::TwoCredentials { user: name(), mechanism });
        }
    }
    Ok(())
}

fn check_binding(binding: &AclBinding) -> Result<(), AccessError> {
    check_name("the name of a resource", &binding.resource_name)?;
    check_name("a principal", &binding.principal)?;
    check_name("a host", &binding.host)
}

fn check_quota(entity: &QuotaEntity, key: &str, value: Option<f64>) -> Result<(), AccessError> {
    if entity.user.is_none() && entity.client_id.is_none() {
        return Err(AccessError::NoEntity);
    }
    for name in entity.names() {
        check_name("the name of a quota's entity", name)?;
    }
    check_name("the key of a quota", key)?;
    match value {
        Some(value) if !(value.is_finite() && value > 0.0) => {
            Err(AccessError::QuotaValue { key: key.to_owned(), value })
        }
        _ => Ok(()),
    }
}
