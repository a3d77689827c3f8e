//! LIKE patterns with an escape of their own.

use super::LIKE_PATTERN;
use super::scalar::Scalar;

pub(super) fn functions() -> Vec<Scalar> {
    vec![Scalar::text(LIKE_PATTERN, (2, 2), |row| {
        let (Some(pattern), Some(escape)) = (row.text(0)?, row.text(1)?) else { return Ok(None) };
        Ok(Some(with_backslash(pattern, escape.chars().next())))
    })]
}

/// The pattern with the backslash as its escape. Without an escape every character but the
/// wildcards stands for itself.
fn with_backslash(pattern: &str, escape: Option<char>) -> String {
    let mut translated = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            translated.push('\\');
            translated.extend(characters.next());
        } else {
            if character == '\\' {
                translated.push('\\');
            }
            translated.push(character);
        }
    }
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_backslashes() {
        assert_eq!(with_backslash("pg/_%", Some('/')), r"pg\_%");
        assert_eq!(with_backslash("a//b\\c", Some('/')), r"a\/b\\c");
        assert_eq!(with_backslash("a_b\\", None), r"a_b\\");
    }
}
