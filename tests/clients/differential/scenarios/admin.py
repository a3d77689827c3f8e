"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords and the smaller APIs of administrators."""

import uuid

from batches import batch

T = 1_700_000_000_000


def create(session):
    def step(name, *topics, version=7, **fields):
        wanted = [{"num_partitions": 1, "replication_factor": 1, **topic} for topic in topics]
        answer = session.raw("CreateTopics", version, topics=wanted, timeout_ms=5000, **fields)
        for topic in answer["topics"]:
            # The settings of a new topic are compared where they are described.
            del topic["configs"]
        session.keep(f"CreateTopics: {name}", session.plain(answer))

    name = session.topic
    step("exists", {"name": session.create("there")})
    for label, topic in {
        "empty name": {"name": ""},
        "bad name": {"name": "a b"},
        "dots": {"name": ".."},
        "250 characters": {"name": "x" * 250},
        "0 partitions": {"name": name("p0"), "num_partitions": 0},
        "-2 partitions": {"name": name("p2"), "num_partitions": -2},
        "replication 0": {"name": name("r0"), "replication_factor": 0},
        "replication 3": {"name": name("r3"), "replication_factor": 3},
        "replication -2": {"name": name("r2"), "replication_factor": -2},
        "an unknown config": {"name": name("c1"), "configs": [{"name": "no.such", "value": "1"}]},
        "a bad value": {"name": name("c2"), "configs": [{"name": "retention.ms", "value": "soon"}]},
        "a null value": {"name": name("c3"), "configs": [{"name": "retention.ms", "value": None}]},
        "a config twice": {"name": name("c4"), "configs": [{"name": "retention.ms", "value": "1"}] * 2},
        "assignments and counts": {
            "name": name("a1"),
            "assignments": [{"partition_index": 0, "broker_ids": [session.node]}],
        },
    }.items():
        step(label, topic, validate_only=True)
    step("an assignment", assigned(session, "a2", 0, [session.node]), validate_only=True)
    step("an assignment to an unknown broker", assigned(session, "a3", 0, [77]), validate_only=True)
    step("an assignment that begins at 1", assigned(session, "a4", 1, [session.node]), validate_only=True)
    step("twice in a request", {"name": name("d1")}, {"name": name("d1")}, validate_only=True)
    step(
        "names that collide",
        {"name": name("there").replace("-", ".")},
        {"name": name("there").replace("-", "_")},
        validate_only=True,
    )
    step(
        "defaults",
        {"name": name("defaults"), "num_partitions": -1, "replication_factor": -1},
        validate_only=True,
        version=5,
    )
    step("nothing", validate_only=True)


def assigned(session, name, partition, brokers):
    assignments = [{"partition_index": partition, "broker_ids": brokers}]
    return {"name": session.topic(name), "num_partitions": -1, "replication_factor": -1, "assignments": assignments}


def partitions(session):
    topic = session.create("grows")

    def step(name, *topics, **fields):
        session.step(f"CreatePartitions: {name}", "CreatePartitions", 3, topics=topics, timeout_ms=5000, **fields)

    for name, count in {"fewer": 0, "negative": -1, "as many": 1}.items():
        step(name, {"name": topic, "count": count}, validate_only=False)
    step("more, only checked", {"name": topic, "count": 3}, validate_only=True)
    step("unknown topic", {"name": session.topic("absent"), "count": 3}, validate_only=False)
    step("twice", {"name": topic, "count": 3}, {"name": topic, "count": 4}, validate_only=False)
    step(
        "an assignment to an unknown broker",
        {"name": topic, "count": 2, "assignments": [{"broker_ids": [77]}]},
        validate_only=False,
    )
    step(
        "too few assignments",
        {"name": topic, "count": 3, "assignments": [{"broker_ids": [session.node]}]},
        validate_only=False,
    )
    step("more", {"name": topic, "count": 3}, validate_only=False)
    session.settle()
    session.step("Metadata after that", "Metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=False)


def records(session):
    topic = session.create("trimmed")
    session.produce(topic, batch([T] * 5))

    def step(name, offset, partition=0, wanted=None):
        parts = [{"partition_index": partition, "offset": offset}]
        topics = [{"name": wanted or topic, "partitions": parts}]
        session.step(f"DeleteRecords: {name}", "DeleteRecords", 2, topics=topics, timeout_ms=5000)

    step("inside", 2)
    step("below the start", 1)
    step("beyond the end", 6)
    step("negative", -2)
    step("to the end", -1)
    step("unknown partition", 0, partition=3)
    step("unknown topic", 0, wanted=session.topic("absent"))
    compacted = session.create("kept", cleanup_policy="compact")
    session.produce(compacted, batch([T] * 2))
    step("of a compacted topic", 1, wanted=compacted)


def delete(session):
    def step(name, *topics, version=6):
        session.step(f"DeleteTopics: {name}", "DeleteTopics", version, topics=topics, timeout_ms=5000)

    topic = session.create("goes")
    known = session.topic_id("goes")
    step("unknown name", {"name": session.topic("absent")})
    step("unknown id", {"name": None, "topic_id": uuid.UUID(int=5)})
    step("neither name nor id", {"name": None})
    step("name and id", {"name": topic, "topic_id": known})
    step("twice", {"name": session.topic("absent")}, {"name": session.topic("absent")})
    step("by id", {"name": None, "topic_id": known})
    step("again", {"name": None, "topic_id": known})
    session.step("DeleteTopics: version 1", "DeleteTopics", 1, topic_names=[session.topic("absent")], timeout_ms=5000)


def describe(session):
    session.wait_for_transactions()
    topic = session.create("described", partitions=2)
    session.produce(topic, batch([T] * 2))
    absent = session.topic("absent")
    producers = [{"name": topic, "partition_indexes": [0, 9]}, {"name": absent, "partition_indexes": [0]}]
    session.step("DescribeProducers", "DescribeProducers", 0, topics=producers)
    session.step("ListPartitionReassignments", "ListPartitionReassignments", 0, timeout_ms=5000, topics=None)
    election = [{"topic": topic, "partitions": [0]}]
    session.step("ElectLeaders", "ElectLeaders", 2, election_type=0, topic_partitions=election, timeout_ms=5000)
    session.step("DescribeClientQuotas", "DescribeClientQuotas", 1, components=[], strict=False)
    filters = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    session.step("DescribeAcls without an authorizer", "DescribeAcls", 3, **filters)
    session.step("DeleteAcls without an authorizer", "DeleteAcls", 3, filters=[filters])
    acl = {
        "resource_type": 2,
        "resource_name": "x",
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    session.step("CreateAcls without an authorizer", "CreateAcls", 3, creations=[acl])
    session.step("DescribeUserScramCredentials", "DescribeUserScramCredentials", 0, users=[{"name": "nobody"}])
    session.step("DescribeTransactions", "DescribeTransactions", 0, transactional_ids=[absent])
    wanted = [{"topic": topic, "partitions": [0, 1]}]
    answer = session.raw("DescribeLogDirs", 4, topics=wanted)
    for place in answer["results"]:
        for each in place["topics"]:
            for part in each["partitions"]:
                part["partition_size"] = "<size>" if part["partition_size"] > 0 else 0
        place["total_bytes"] = place["usable_bytes"] = "<size>"
    session.keep("DescribeLogDirs", session.plain(answer))
