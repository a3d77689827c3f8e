"""Which rules speak for a request: literal names, prefixes and wildcards, allow and deny, principals, hosts; and what "any
topic" means."""

import time

from batches import batch
from scenarios.fetch import request as fetch_request
from scenarios.groups import beat
from scenarios.principals import ANY_HOST, DENY, PREFIXED, connect_as, create_rules, create_users, delete_rules, rule

FORBIDDEN = (29, 30, 31)
HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"


def allow(operation, name, pattern=None, kind="topic", principal=None, host=ANY_HOST, **more):
    who = {"principal": principal, "host": host}
    return {"operation": operation, "name": name, "pattern": pattern, "kind": kind, **who, **more}


def deny(operation, name, *more, **fields):
    return allow(operation, name, *more, **fields, permission_type=DENY)


# Asked for is the topic, and the group, "abc" of each user.
CASES = {
    "nothing": [],
    "literal": [allow("Read", "abc")],
    "literal, part of the name": [allow("Read", "ab")],
    "literal, in capitals": [allow("Read", "ABC")],
    "prefix": [allow("Read", "ab", PREFIXED)],
    "prefix, whole name": [allow("Read", "abc", PREFIXED)],
    "prefix, longer than the name": [allow("Read", "abcd", PREFIXED)],
    "prefix, not of the name": [allow("Read", "aa", PREFIXED)],
    "two prefixes": [allow("Read", "a", PREFIXED), allow("Write", "ab", PREFIXED)],
    "wildcard": [allow("Read", "*")],
    "group of the same name": [allow("Read", "abc", kind="group")],
    "group wildcard": [allow("Read", "*", kind="group")],
    "all operations": [allow("All", "abc")],
    "Alter": [allow("Alter", "abc")],
    "Describe": [allow("Describe", "abc")],
    "AlterConfigs": [allow("AlterConfigs", "abc")],
    "deny literal, allow prefix": [allow("Read", "ab", PREFIXED), deny("Read", "abc")],
    "deny prefix, allow literal": [allow("Read", "abc"), deny("Read", "ab", PREFIXED)],
    "deny longer prefix, allow shorter": [allow("Read", "a", PREFIXED), deny("Read", "ab", PREFIXED)],
    "deny shorter prefix, allow longer": [allow("Read", "ab", PREFIXED), deny("Read", "a", PREFIXED)],
    "deny wildcard, allow literal": [allow("Read", "abc"), deny("Read", "*")],
    "deny literal, allow wildcard": [allow("Read", "*"), deny("Read", "abc")],
    "deny all operations": [allow("All", "abc"), deny("All", "abc")],
    "deny another operation": [allow("All", "abc"), deny("Write", "abc")],
    "deny Describe": [allow("All", "abc"), deny("Describe", "abc")],
    "deny Read, allow Describe": [allow("Describe", "abc"), deny("Read", "abc")],
    "deny Read, allow Write": [allow("Write", "abc"), deny("Read", "abc")],
    "everybody": [allow("Read", "abc", principal="*")],
    "deny everybody": [allow("Read", "abc"), deny("Read", "abc", principal="*")],
    "another user": [allow("Read", "abc", principal="somebody")],
    "host": [allow("Read", "abc", host=HERE)],
    "another host": [allow("Read", "abc", host=ELSEWHERE)],
    "deny host": [allow("Read", "abc"), deny("Read", "abc", host=HERE)],
    "deny another host": [allow("Read", "abc"), deny("Read", "abc", host=ELSEWHERE)],
    "from another host": [allow("Read", "abc", host=ELSEWHERE)],
    "from another host, denied": [allow("Read", "abc"), deny("Read", "abc", host=ELSEWHERE)],
    "any: the cluster": [allow("IdempotentWrite", "kafka-cluster", kind="cluster")],
    "any: all of the cluster": [allow("All", "kafka-cluster", kind="cluster")],
    "any: another topic": [allow("Write", "xyz")],
    "any: all operations on another topic": [allow("All", "xyz")],
    "any: prefix": [allow("Write", "x", PREFIXED)],
    "any: wildcard": [allow("Write", "*")],
    "any: denied literal": [allow("Write", "xyz"), deny("Write", "xyz")],
    "any: denied another literal": [allow("Write", "xyz"), deny("Write", "xy")],
    "any: literal, denied prefix": [allow("Write", "xyz"), deny("Write", "xy", PREFIXED)],
    "any: literal, denied longer prefix": [allow("Write", "xyz"), deny("Write", "xyzz", PREFIXED)],
    "any: prefix, denied literal": [allow("Write", "x", PREFIXED), deny("Write", "x")],
    "any: prefix, denied prefix": [allow("Write", "x", PREFIXED), deny("Write", "x", PREFIXED)],
    "any: prefix, denied longer prefix": [allow("Write", "x", PREFIXED), deny("Write", "xy", PREFIXED)],
    "any: prefix, denied shorter prefix": [allow("Write", "xy", PREFIXED), deny("Write", "x", PREFIXED)],
    "any: wildcard, denied literal": [allow("Write", "*"), deny("Write", "xyz")],
    "any: wildcard, denied prefix": [allow("Write", "*"), deny("Write", "x", PREFIXED)],
    "any: wildcard, denied wildcard": [allow("Write", "*"), deny("Write", "*")],
    "any: literal, denied wildcard": [allow("Write", "xyz"), deny("Write", "*")],
    "any: literal, another operation denied": [allow("Write", "xyz"), deny("Read", "xyz")],
    "any: literal, all operations denied": [allow("Write", "xyz"), deny("All", "xyz")],
    "any: literal, denied to everybody": [allow("Write", "xyz"), deny("Write", "xyz", principal="*")],
    "any: literal, denied to another host": [allow("Write", "xyz"), deny("Write", "xyz", host=ELSEWHERE)],
    "any: literal, to another host": [allow("Write", "xyz", host=ELSEWHERE)],
    "any: literal and prefix, the first denied": [
        allow("Write", "ab"),
        allow("Write", "x", PREFIXED),
        deny("Write", "ab"),
    ],
    "any: denied on the cluster, allowed on a topic": [
        allow("Write", "xyz"),
        deny("IdempotentWrite", "kafka-cluster", kind="cluster"),
    ],
}


def run(session):
    session.wait_for_coordinator()
    users = {case: session.topic(f"user-{number}") for number, case in enumerate(CASES)}
    create_users(session, list(users.values()))
    create_rules(session, [written(users[case], each) for case, rules in CASES.items() for each in rules])
    for case, user in users.items():
        connection = connect_as(session, user, ELSEWHERE if case.startswith("from another host") else HERE)
        session.keep(case, ", ".join(allowed(connection, f"{user}-abc")) or "nothing")
        connection.close()
    delete_rules(session)


def written(user, wanted):
    name = wanted["name"] if wanted["name"] in ("*", "kafka-cluster") else f"{user}-{wanted['name']}"
    more = {key: wanted[key] for key in ("host", "permission_type") if key in wanted}
    if wanted["pattern"]:
        more["resource_pattern_type"] = wanted["pattern"]
    return rule(wanted["principal"] or user, wanted["kind"], name, wanted["operation"], **more)


def allowed(connection, name):
    """The topic is not there: what is allowed ends in another error than what is not."""
    fields = fetch_request([(name, [(0, 0, {})])], 12, max_wait_ms=0, min_bytes=0)
    answer = connection.call("Fetch", 12, fields)
    if answer["responses"][0]["partitions"][0]["error_code"] not in FORBIDDEN:
        yield "Read"
    data = [{"name": name, "partition_data": [{"index": 0, "records": batch([int(time.time() * 1000)])}]}]
    answer = connection.call("Produce", 9, {"acks": -1, "timeout_ms": 5000, "topic_data": data})
    if answer["responses"][0]["partition_responses"][0]["error_code"] not in FORBIDDEN:
        yield "Write"
    fields = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    if connection.call("Metadata", 9, fields)["topics"][0]["error_code"] not in FORBIDDEN:
        yield "Describe"
    if connection.call("Heartbeat", 4, beat(name, "nobody", 1))["error_code"] not in FORBIDDEN:
        yield "Read of the group"
    fields = {"transactional_id": None, "transaction_timeout_ms": 60000}
    if connection.call("InitProducerId", 4, fields)["error_code"] not in FORBIDDEN:
        yield "a producer id"
