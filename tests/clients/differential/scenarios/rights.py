"""What each right lets a user do: every request as users with no right, with one, with those that go together, with
all, and with all but one.

An answer is kept as one line of what depends on rights: errors, names and authorized operations. What all users but a few
are answered is kept once.
"""

import time
import uuid

from batches import batch
from scenarios.consumer_groups import heartbeat
from scenarios.groups import part
from scenarios.principals import CLUSTER, DENY, PREFIXED, connect_as, create_rules, create_users, delete_rules, rule
from scenarios.rights_requests import Things, requests
from scenarios.transactions import patient
from session import NO_ID
from wire import Closed, Silent

OPERATIONS = {
    "topic": ("Read", "Write", "Create", "Delete", "Alter", "Describe", "DescribeConfigs", "AlterConfigs"),
    "group": ("Read", "Delete", "Describe", "DescribeConfigs", "AlterConfigs"),
    "cluster": ("Create", "Alter", "Describe", "ClusterAction", "DescribeConfigs", "AlterConfigs", "IdempotentWrite"),
    "transactional-id": ("Write", "Describe"),
}
TOGETHER = (
    (("topic", "Read"), ("group", "Read")),
    (("topic", "Read"), ("transactional-id", "Write")),
    (("group", "Read"), ("transactional-id", "Write")),
    (("topic", "Write"), ("transactional-id", "Write")),
    (("topic", "Read"), ("group", "Read"), ("transactional-id", "Write")),
    (("topic", "Describe"), ("group", "Describe")),
    (("topic", "Describe"), ("group", "Read")),
    (("topic", "Read"), ("group", "Delete")),
    (("topic", "Describe"), ("topic", "Create")),
    (("topic", "Describe"), ("cluster", "Create")),
    (("topic", "DescribeConfigs"), ("topic", "Create")),
    (("topic", "DescribeConfigs"), ("cluster", "Create")),
    (("topic", "Describe"), ("transactional-id", "Describe")),
)
EVERYTHING = [(kind, "All") for kind in OPERATIONS]
# The answer of a topic, its leader or a coordinator that is not there yet.
NOT_YET = (3, 5, 6, 14, 15, 16)
TRIES = 100
# What an entry of an answer is about, and what else of it is kept.
ABOUT = (
    "name",
    "topic",
    "group_id",
    "transactional_id",
    "key",
    "resource_name",
    "index",
    "partition",
    "partition_index",
    "topic_id",
)
NOT_GIVEN = (None, -(1 << 31))
SHOWN = ("topic_id", "committed_offset", "topic_config_error_code")


def users():
    """Rights by the label of who has them; and those of users who have all others but one."""
    rights = {"nobody": [], "everything": EVERYTHING}
    without = {}
    for kind, operations in OPERATIONS.items():
        for operation in operations:
            rights[f"{kind}.{operation}"] = [(kind, operation)]
            without[f"not.{kind}.{operation}"] = (kind, operation)
    for together in TOGETHER:
        rights["_".join(f"{kind}.{operation}" for kind, operation in together)] = list(together)
    return rights, without


def run(session):
    session.wait_for_coordinator()
    session.wait_for_transactions()
    rights, without = users()
    labels = [*rights, *without]
    create_users(session, [session.topic(label) for label in labels])
    create_things(session, [*labels, "others"])
    rules = [rule_on(session, label, right) for label, granted in rights.items() for right in granted]
    for label, denied in without.items():
        rules += [rule_on(session, label, right) for right in EVERYTHING]
        rules.append(rule_on(session, label, denied, permission_type=DENY))
    create_rules(session, rules)
    answers = {}
    for label in labels:
        for what, answer in asked(session, label):
            answers.setdefault(what, {})[label] = answer
    for what, by_label in answers.items():
        session.keep(f"{what}: allowed", differing(by_label, "nobody", rights))
        session.keep(f"{what}: denied", differing(by_label, "everything", without))
    delete_rules(session)


def differing(by_label, usual, labels):
    """What most are answered, and who is answered something else."""
    kept = {usual: by_label[usual]}
    kept |= {label: by_label[label] for label in labels if by_label[label] != by_label[usual]}
    return kept


def rule_on(session, label, right, **more):
    kind, operation = right
    name, pattern = Things(session, label).prefix, {"resource_pattern_type": PREFIXED}
    if kind == "cluster":
        name, pattern = CLUSTER, {}
    return rule(session.topic(label), kind, name, operation, **pattern, **more)


def create_things(session, labels):
    names = [Things(session, label)(name) for label in labels for name in ("t", "gone", "goes")]
    wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    answer = session.raw("CreateTopics", 7, topics=wanted, timeout_ms=14000)
    assert all(topic["error_code"] == 0 for topic in answer["topics"]), answer
    session.ids = {topic["name"]: topic["topic_id"] for topic in answer["topics"]}
    for name in names:
        session.wait_for(name, 1)
    for label in labels:
        create_others(session, Things(session, label))


def create_others(session, mine):
    """Records, groups and an open transaction."""
    data = [{"name": mine("t"), "partition_data": [{"index": 0, "records": batch([int(time.time() * 1000)] * 3)}]}]
    for _ in range(TRIES):
        answer = session.raw("Produce", 9, acks=-1, timeout_ms=10000, topic_data=data)
        if answer["responses"][0]["partition_responses"][0]["error_code"] not in NOT_YET:
            break
        time.sleep(0.05)
    by_itself = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    for group in ("g", "old"):
        topics = [{"name": mine("t"), "partitions": [part(offset=1)]}]
        answer = session.raw("OffsetCommit", 8, group_id=mine(group), **by_itself, topics=topics)
        assert answer["topics"][0]["partitions"][0]["error_code"] == 0, answer
    transactional_id = {"transactional_id": mine("x"), "transaction_timeout_ms": 900000}
    producer = patient(session, "InitProducerId", 4, **transactional_id)
    answer = session.raw(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id=mine("x"),
        v3_and_below_producer_id=producer["producer_id"],
        v3_and_below_producer_epoch=producer["producer_epoch"],
        v3_and_below_topics=[{"name": mine("t"), "partitions": [0]}],
    )
    results = answer["results_by_topic_v3_and_below"][0]["results_by_partition"]
    assert results[0]["partition_error_code"] == 0, answer


def asked(session, label):
    """(request, answer) for each request that this user sends."""
    mine = Things(session, label)
    # Members stay for as long as they send heartbeats.
    for whose in (mine("c"), mine.others + "c"):
        fields = heartbeat(whose, str(uuid.uuid4()), 0, [whose[:-1] + "t"])
        answer = session.raw("ConsumerGroupHeartbeat", 1, **fields)
        assert answer["error_code"] == 0, answer
    connection = connect_as(session, session.topic(label))
    for what, api, version, fields in requests(mine):
        try:
            answer = settled(connection, api, version, fields)
            yield what, outline(mine, answer)
        except (Closed, Silent) as error:
            connection.close()
            connection = connect_as(session, session.topic(label))
            yield what, type(error).__name__.lower()
    connection.close()


def settled(connection, api, version, fields):
    """The answer; where a topic is created, the one that it has come."""
    answer = connection.call(api, version, fields)
    if fields.get("allow_auto_topic_creation"):
        for _ in range(TRIES):
            if answer["topics"][0]["error_code"] not in NOT_YET:
                break
            time.sleep(0.05)
            answer = connection.call(api, version, fields)
    return answer


def outline(mine, value):
    """An answer, or an entry of it, as a line: what it is about, its error, what else is shown, and its entries."""
    about = [named(mine, value[key]) for key in ABOUT if value.get(key) is not None][:1]
    error = [str(part_of) for key, part_of in value.items() if key in ("error_code", "partition_error_code")]
    shown = [": ".join(about + error)] if about + error else []
    for key, part_of in value.items():
        if isinstance(part_of, list):
            shown.append(listed(mine, key, part_of))
        elif part_of not in NOT_GIVEN and (key in SHOWN or key.endswith("authorized_operations")):
            shown.append(f"{key}={named(mine, part_of)}")
    return " ".join(part_of for part_of in shown if part_of)


def listed(mine, key, parts):
    if key == "configs":
        return "configs" if parts else ""
    lines = {outline(mine, each) for each in parts if isinstance(each, dict) and belongs(mine, each)}
    return f"[{', '.join(sorted(lines - {''}))}]" if lines - {""} else ""


def belongs(mine, entry):
    """Not something of another scenario, in an answer with all that there is."""
    names = [entry.get(key) for key in ("name", "group_id", "transactional_id", "resource_name")]
    known = (mine.session.prefix, str(mine.session.node))
    return all(not name or name.startswith(known) for name in names)


def named(mine, value):
    if isinstance(value, uuid.UUID):
        return "none" if value == NO_ID else "some"
    if isinstance(value, set):
        return ",".join(map(str, sorted(value)))
    if not isinstance(value, str):
        return str(value)
    if value == str(mine.session.node):
        return "<node>"
    if value.startswith(mine.prefix):
        return value.removeprefix(mine.prefix)
    if value.startswith(mine.others):
        return "others-" + value.removeprefix(mine.others)
    return "another's" if value.startswith(mine.session.prefix) else value
