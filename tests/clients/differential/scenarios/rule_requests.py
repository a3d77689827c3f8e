"""CreateAcls, DescribeAcls and DeleteAcls by a super user: what is taken, and what filters find."""

from scenarios.principals import (
    ALLOW,
    ANY,
    DENY,
    EVERY_RULE,
    LITERAL,
    MATCH,
    OPERATIONS,
    PREFIXED,
    create_rules,
    delete_rules,
)
from scenarios.principals import rule as rule_of

UNKNOWN = 0
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = 2, 3, 4, 5, 6, 7


def run(session):
    delete_rules(session)
    creations(session)
    delete_rules(session)
    filters(session)
    delete_rules(session)


def creations(session):
    name = session.topic("t")
    good = rule_of("alice", "topic", name, "Read")
    for what, changed in {
        "literal": {},
        "the same again": {},
        "prefixed": {"resource_pattern_type": PREFIXED},
        "prefixed with an asterisk": {"resource_name": "*", "resource_pattern_type": PREFIXED},
        "no name": {"resource_name": ""},
        "a name that no topic has": {"resource_name": "a b"},
        "a name of 300 characters": {"resource_name": "x" * 300},
        "unknown resource type": {"resource_type": UNKNOWN},
        "any resource type": {"resource_type": ANY},
        "delegation token": {"resource_type": TOKEN, "operation": OPERATIONS["Describe"]},
        "user": {"resource_type": USER, "operation": OPERATIONS["Describe"]},
        "resource type 8": {"resource_type": 8},
        "another cluster": {"resource_type": CLUSTER, "operation": OPERATIONS["Alter"]},
        "prefixed cluster": {
            "resource_type": CLUSTER,
            "operation": OPERATIONS["Alter"],
            "resource_name": "kafka-cluster",
            "resource_pattern_type": PREFIXED,
        },
        "unknown pattern type": {"resource_pattern_type": UNKNOWN},
        "any pattern type": {"resource_pattern_type": ANY},
        "match pattern type": {"resource_pattern_type": MATCH},
        "unknown operation": {"operation": UNKNOWN},
        "any operation": {"operation": ANY},
        "operation 15": {"operation": 15},
        "an operation that topics do not have": {"operation": OPERATIONS["ClusterAction"]},
        "an operation that the cluster does not have": {"resource_type": CLUSTER, "resource_name": "kafka-cluster"},
        "unknown permission": {"permission_type": UNKNOWN},
        "any permission": {"permission_type": ANY},
        "no principal": {"principal": ""},
        "a principal without a kind": {"principal": "alice"},
        "a principal without a name": {"principal": "User:"},
        "another kind of principal": {"principal": "Group:alice"},
        "a kind in small letters": {"principal": "user:alice"},
        "no host": {"host": ""},
        "a name as host": {"host": "host.example"},
        "a network as host": {"host": "10.0.0.0/8"},
    }.items():
        session.step(f"CreateAcls: {what}", "CreateAcls", 3, creations=[good | changed])
    bad = good | {"resource_name": ""}
    session.step("CreateAcls: good, bad, good", "CreateAcls", 3, creations=[good, bad, good])
    session.step("CreateAcls: none", "CreateAcls", 3, creations=[])
    session.step("CreateAcls 1", "CreateAcls", 1, creations=[good])


def filters(session):
    name = session.topic
    create_rules(
        session,
        [
            rule_of("alice", "topic", name("abc"), "Read"),
            rule_of("alice", "topic", name("ab"), "Read", resource_pattern_type=PREFIXED),
            rule_of("alice", "topic", name("ab"), "Write"),
            rule_of("bob", "topic", "*", "Read"),
            rule_of("*", "topic", name("abc"), "All", permission_type=DENY),
            rule_of("alice", "topic", name("abc"), "Read", host="10.0.0.1"),
            rule_of("alice", "group", name("abc"), "Read"),
            rule_of("alice", "cluster", "kafka-cluster", "Alter"),
            rule_of("bob", "transactional-id", name("abc"), "Write"),
        ],
    )
    found = {
        "all": {},
        "topics": {"resource_type_filter": TOPIC},
        "groups": {"resource_type_filter": GROUP},
        "the cluster": {"resource_type_filter": CLUSTER},
        "users": {"resource_type_filter": USER},
        "a name": {"resource_name_filter": name("abc")},
        "a name, literal": {"resource_name_filter": name("abc"), "pattern_type_filter": LITERAL},
        "a name, prefixed": {"resource_name_filter": name("ab"), "pattern_type_filter": PREFIXED},
        "a name, match": {"resource_name_filter": name("abc"), "pattern_type_filter": MATCH},
        "a name of topics, match": {
            "resource_type_filter": TOPIC,
            "resource_name_filter": name("abc"),
            "pattern_type_filter": MATCH,
        },
        "a name, nothing but prefixes match": {"resource_name_filter": name("abz"), "pattern_type_filter": MATCH},
        "the wildcard, literal": {"resource_name_filter": "*", "pattern_type_filter": LITERAL},
        "the wildcard, match": {"resource_name_filter": "*", "pattern_type_filter": MATCH},
        "all literal": {"pattern_type_filter": LITERAL},
        "all prefixed": {"pattern_type_filter": PREFIXED},
        "all that match": {"pattern_type_filter": MATCH},
        "a principal": {"principal_filter": "User:alice"},
        "everybody": {"principal_filter": "User:*"},
        "a principal without a kind": {"principal_filter": "alice"},
        "a host": {"host_filter": "10.0.0.1"},
        "every host": {"host_filter": "*"},
        "an operation": {"operation": OPERATIONS["Read"]},
        "all operations": {"operation": OPERATIONS["All"]},
        "denied": {"permission_type": DENY},
        "allowed": {"permission_type": ALLOW},
        "unknown resource type": {"resource_type_filter": UNKNOWN},
        "unknown pattern type": {"pattern_type_filter": UNKNOWN},
        "unknown operation": {"operation": UNKNOWN},
        "unknown permission": {"permission_type": UNKNOWN},
        "no name": {"resource_name_filter": ""},
    }
    for what, changed in found.items():
        describe(session, f"DescribeAcls: {what}", EVERY_RULE | changed)
    refused = ("unknown operation", "unknown pattern type", "a principal without a kind")
    for what in (*refused, "denied", "a name of topics, match"):
        delete(session, f"DeleteAcls: {what}", EVERY_RULE | found[what])
    delete(session, "DeleteAcls: two filters", EVERY_RULE | found["groups"], EVERY_RULE | found["groups"])
    session.settle()
    describe(session, "DescribeAcls: what is left", EVERY_RULE)


def describe(session, name, fields):
    keep(session, name, session.tried("DescribeAcls", 3, **fields))


def delete(session, name, *fields):
    keep(session, name, session.tried("DeleteAcls", 3, filters=list(fields)))


def keep(session, name, answer):
    session.keep(name, answer if isinstance(answer, str) else ordered(session.plain(answer)))


def ordered(value):
    """Rules come in any order."""
    if isinstance(value, dict):
        return {key: ordered(part) for key, part in value.items()}
    return sorted(map(ordered, value), key=str) if isinstance(value, list) else value
