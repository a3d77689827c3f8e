//! Users by name.

use std::sync::Arc;

use imbl::OrdMap;

use super::credential::{ScramCredential, ScramMechanism};

/// Somebody who can prove to be the one of this name, by any of the credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    /// At most one of each mechanism.
    pub credentials: Vec<ScramCredential>,
}

impl User {
    pub fn credential(&self, mechanism: ScramMechanism) -> Option<&ScramCredential> {
        self.credentials.iter().find(|credential| credential.mechanism == mechanism)
    }

    /// Puts a credential in the place of the one of its mechanism.
    pub fn put_credential(&mut self, credential: ScramCredential) {
        self.remove_credential(credential.mechanism);
        self.credentials.push(credential);
    }

    /// Gives whether there was one.
    pub fn remove_credential(&mut self, mechanism: ScramMechanism) -> bool {
        let count = self.credentials.len();
        self.credentials.retain(|credential| credential.mechanism != mechanism);
        self.credentials.len() < count
    }
}

/// Users, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Users {
    by_name: OrdMap<String, Arc<User>>,
}

impl Users {
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        self.by_name.values()
    }

    pub(super) fn put(&mut self, user: User) {
        self.by_name.insert(user.name.clone(), Arc::new(user));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
    }
}
