//! What a member subscribes to: topics by name, and by a regular expression. Pure.

use std::collections::BTreeSet;

use regex::Regex;
use strandline_storage::ids::TopicId;

use super::super::topics::Topics;
use super::GroupError;
use crate::pattern::whole_name;

#[derive(Clone, Debug, Default)]
pub(super) struct Interest {
    names: BTreeSet<String>,
    /// Matches whole names.
    regex: Option<Pattern>,
}

#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    /// `None` if this build does not take an expression that an earlier one took.
    compiled: Option<Regex>,
}

impl PartialEq for Interest {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names && self.regex_text() == other.regex_text()
    }
}

impl Interest {
    /// What is said now, and the rest as before. An empty expression is none.
    pub(super) fn new(
        current: Option<&Self>,
        names: Option<&[String]>,
        regex: Option<&str>,
    ) -> Result<Self, GroupError> {
        let names = match names {
            Some(names) => names.iter().cloned().collect(),
            None => current.map(|current| current.names.clone()).unwrap_or_default(),
        };
        let regex = match regex {
            Some("") => None,
            Some(text) => Some(Pattern { text: text.to_owned(), compiled: Some(compile(text)?) }),
            None => current.and_then(|current| current.regex.clone()),
        };
        Ok(Self { names, regex })
    }

    /// As the log has it.
    pub(super) fn restore(names: &[String], regex: Option<&str>) -> Self {
        let pattern = |text: &str| Pattern { text: text.to_owned(), compiled: compile(text).ok() };
        Self { names: names.iter().cloned().collect(), regex: regex.map(pattern) }
    }

    pub(super) fn includes(&self, topic: &str) -> bool {
        self.names.contains(topic) || self.matches(topic)
    }

    fn matches(&self, topic: &str) -> bool {
        let compiled = self.regex.as_ref().and_then(|regex| regex.compiled.as_ref());
        compiled.is_some_and(|regex| regex.is_match(topic))
    }

    /// The topics that are meant, of those that there are; by the expression only those that it `sees`.
    pub(super) fn resolve(&self, topics: &Topics, sees: impl Fn(&str, TopicId) -> bool) -> BTreeSet<TopicId> {
        let named = self.names.iter().filter_map(|name| topics.find(name)).map(|topic| topic.id);
        let mut found: BTreeSet<_> = named.collect();
        if self.regex.is_some() {
            let matching = topics.iter().filter(|(name, topic)| self.matches(name) && sees(name, topic.id));
            found.extend(matching.map(|(_, topic)| topic.id));
        }
        found
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }

    pub(super) fn regex_text(&self) -> Option<&str> {
        self.regex.as_ref().map(|regex| regex.text.as_str())
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.names.iter().map(String::len).sum::<usize>() + self.regex_text().map_or(0, str::len)
    }
}

fn compile(text: &str) -> Result<Regex, GroupError> {
    whole_name(text).map_err(|reason| GroupError::InvalidRegex { reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::PATTERN_LENGTH_MAX;

    fn of_regex(regex: &str) -> Result<Interest, GroupError> {
        Interest::new(None, None, Some(regex))
    }

    #[test]
    fn an_expression_matches_whole_names() {
        let topics = Topics::new(1, &[("a", 1, 1), ("ab", 2, 1), ("b", 3, 1)]);
        let ids = |regex| of_regex(regex).unwrap().resolve(&topics, |_, _| true).len();
        assert_eq!((ids("a"), ids("a.*"), ids("a|b"), ids(".*")), (1, 2, 2, 3));
    }

    #[test]
    fn expressions_that_are_wrong_or_too_large_are_refused() {
        for regex in ["(", "[a", "(?:a{1000}){1000}", &"a".repeat(PATTERN_LENGTH_MAX + 1)] {
            assert!(matches!(of_regex(regex), Err(GroupError::InvalidRegex { .. })), "{regex}");
        }
    }

    #[test]
    fn what_is_not_said_stays() {
        let first = Interest::new(None, Some(&["a".to_owned()]), Some("b.*")).unwrap();
        assert!(first.includes("a") && first.includes("bc") && !first.includes("c"));
        let second = Interest::new(Some(&first), Some(&["c".to_owned()]), None).unwrap();
        assert!(!second.includes("a") && second.includes("bc") && second.includes("c"));
        let third = Interest::new(Some(&second), None, Some("")).unwrap();
        assert!(third.includes("c") && !third.includes("bc"));
    }
}
