//! Which keys an object may have.
//!
//! The rules are those that every store keeps without escaping anything, so that a key is the same
//! text everywhere. Names that begin with a dot belong to the stores themselves.

use super::StoreError;

const KEY_BYTES_MAX: usize = 1024;
const COMPONENT_BYTES_MAX: usize = 255;

/// # Errors
/// [`StoreError::Invalid`] that says which rule the key breaks.
pub(super) fn check_key(key: &str) -> Result<(), StoreError> {
    if key.len() > KEY_BYTES_MAX {
        let reason = format!("it has {} bytes, more than {KEY_BYTES_MAX}", key.len());
        return Err(StoreError::invalid(key, reason));
    }
    match key.split('/').find(|component| !is_component(component)) {
        None => Ok(()),
        Some("") => Err(StoreError::invalid(key, "it has an empty component")),
        Some(component) => Err(StoreError::invalid(key, format!("component {component} is not allowed"))),
    }
}

/// Checks a prefix for a listing and takes its last slash away. Empty is allowed.
pub(super) fn check_prefix(prefix: &str) -> Result<&str, StoreError> {
    let trimmed = prefix.strip_suffix('/').unwrap_or(prefix);
    if !prefix.is_empty() {
        check_key(trimmed)?;
    }
    Ok(trimmed)
}

pub(super) fn is_component(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= COMPONENT_BYTES_MAX
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.=".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_log_are_allowed() {
        for key in ["cluster", "shards/0/wal/00000000000000000001/0/00000000000000000002", "a/b.seg"] {
            check_key(key).expect("a plain key");
        }
    }

    #[test]
    fn keys_that_leave_the_root_or_hide_are_refused() {
        let long = "a".repeat(KEY_BYTES_MAX + 1);
        for key in ["", "/a", "a/", "a//b", "../a", "a/..", ".tmp/1", ".lock", "a\0b", "a\\b", "a b", &long] {
            check_key(key).expect_err(key);
        }
    }

    #[test]
    fn a_prefix_is_empty_or_a_key_with_or_without_a_slash() {
        assert_eq!(check_prefix("").expect("empty is allowed"), "");
        assert_eq!(check_prefix("a/b/").expect("slash is allowed"), "a/b");
        assert_eq!(check_prefix("a/b").expect("no slash is allowed"), "a/b");
        check_prefix("/").expect_err("a lone slash names nothing");
        check_prefix("../").expect_err("outside of the root");
    }
}
