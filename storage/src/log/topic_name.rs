//! The rules for the names of topics, as Apache Kafka has them (`org.apache.kafka.common.internals.Topic`).
//! Pure.

use thiserror::Error;

pub const TOPIC_NAME_LENGTH_MAX: usize = 249;

/// Why a text is no name for a topic.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidTopicName {
    #[error("topic name is empty")]
    Empty,
    #[error("topic name \"{0}\" is not allowed")]
    Dots(String),
    #[error("topic name has {length} characters, at most {TOPIC_NAME_LENGTH_MAX} are allowed")]
    TooLong { length: usize },
    #[error("topic name \"{name}\" holds {character:?}, allowed are ASCII letters, digits, '.', '_' and '-'")]
    IllegalCharacter { name: String, character: char },
}

/// Checks a name for a new topic.
pub fn validate(name: &str) -> Result<(), InvalidTopicName> {
    if name.is_empty() {
        return Err(InvalidTopicName::Empty);
    }
    if name == "." || name == ".." {
        return Err(InvalidTopicName::Dots(name.to_owned()));
    }
    let length = name.chars().count();
    if length > TOPIC_NAME_LENGTH_MAX {
        return Err(InvalidTopicName::TooLong { length });
    }
    match name.chars().find(|c| !is_legal(*c)) {
        Some(character) => Err(InvalidTopicName::IllegalCharacter { name: name.to_owned(), character }),
        None => Ok(()),
    }
}

fn is_legal(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-')
}

/// Two names collide when they differ only in `.` and `_`: metrics of Kafka's own tools could not
/// tell them apart. The key is equal for colliding names.
pub fn collision_key(name: &str) -> String {
    name.replace('.', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_kafka() {
        for name in ["a", "a.b.c", "frog-hops", "Orders", "1st", "select", "__consumer_offsets", "..."] {
            assert_eq!(validate(name), Ok(()), "{name}");
        }
        assert_eq!(validate(&"x".repeat(249)), Ok(()));
        assert_eq!(validate(&"x".repeat(250)), Err(InvalidTopicName::TooLong { length: 250 }));
        assert_eq!(validate(""), Err(InvalidTopicName::Empty));
        assert_eq!(validate(".."), Err(InvalidTopicName::Dots("..".into())));
        for name in ["a b", "a/b", "ä", "a\0", "a:b"] {
            assert!(matches!(validate(name), Err(InvalidTopicName::IllegalCharacter { .. })), "{name}");
        }
    }

    #[test]
    fn names_that_differ_in_dots_and_underscores_collide() {
        assert_eq!(collision_key("a.b_c"), collision_key("a_b.c"));
        assert_ne!(collision_key("a.b"), collision_key("a-b"));
    }
}
