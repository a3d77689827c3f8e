"""Fetch: bounds of offsets and of bytes, epochs, unknown topics, by name and by id."""

import uuid

from batches import batch

T = 1_700_000_000_000
BY_NAME, BY_ID = 12, 16
NO_WAIT = {"max_wait_ms": 0, "min_bytes": 0}


def request(topics, version, **fields):
    """topics: (name or id, [(partition, offset, more fields)])."""
    wanted = []
    for topic, partitions in topics:
        parts = [
            {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more}
            for partition, offset, more in partitions
        ]
        wanted.append({"topic_id" if version >= 13 else "topic": topic, "partitions": parts})
    whole = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "topics": wanted}
    if version < 15:
        whole["replica_id"] = -1
    if version >= 7:
        whole |= {"session_id": 0, "session_epoch": -1}
    return whole | fields


def ask(session, name, topic, offset, version=BY_NAME, partition=0, more=None, **fields):
    part = (partition, offset, more or {})
    return session.step(name, "Fetch", version, **request([(topic, [part])], version, **fields))


def run(session):
    topic = session.create("fetched", partitions=2)
    for base in range(3):
        session.produce(topic, batch([T + base] * 3, value=b"v" * 100))
    session.produce(topic, batch([T] * 2, attributes=1), partition=1)
    for version in (4, 5, 7, 9, 11, 12):
        ask(session, f"from 0 in version {version}", topic, 0, version)
    for version in (13, 15, 16, 17, 18):
        ask(session, f"by id in version {version}", session.topic_id("fetched"), 0, version)
    offsets(session, topic)
    sizes(session, topic)
    epochs(session, topic)
    wrong_topics(session, topic)
    deleted(session, topic)


def offsets(session, topic):
    for offset in (4, 8, 9, 10, -1, -2, 2**62):
        ask(session, f"from {offset}", topic, offset, **NO_WAIT)
        ask(session, f"from {offset}, committed", topic, offset, isolation_level=1, **NO_WAIT)
    ask(session, "at the end it waits", topic, 9, max_wait_ms=100)


def sizes(session, topic):
    for size in (0, 1, 400, 800, 1 << 20):
        ask(session, f"max_bytes {size}", topic, 0, max_bytes=size)
        ask(session, f"partition_max_bytes {size}", topic, 0, more={"partition_max_bytes": size})
        both = [(topic, [(1, 0, {}), (0, 0, {})])]
        session.step(f"two partitions, max_bytes {size}", "Fetch", BY_NAME, **request(both, BY_NAME, max_bytes=size))
    ask(session, "negative max_bytes", topic, 0, max_bytes=-1)
    ask(session, "negative partition_max_bytes", topic, 0, more={"partition_max_bytes": -1})
    ask(session, "min_bytes beyond max_bytes", topic, 0, min_bytes=1 << 30, max_wait_ms=100)
    first_empty = [(topic, [(0, 9, {}), (1, 0, {})])]
    session.step("the first is at its end", "Fetch", BY_NAME, **request(first_empty, BY_NAME, max_bytes=1))
    twice = [(topic, [(0, 0, {}), (0, 3, {})])]
    session.step("a partition twice", "Fetch", BY_NAME, **request(twice, BY_NAME))


def epochs(session, topic):
    for epoch in (0, 1, -2):
        ask(session, f"leader epoch {epoch}", topic, 0, more={"current_leader_epoch": epoch})
    for epoch in (0, 1):
        ask(session, f"last fetched epoch {epoch}", topic, 3, more={"last_fetched_epoch": epoch})
        more = {"current_leader_epoch": 0, "last_fetched_epoch": epoch}
        ask(session, f"last fetched epoch {epoch} at the end", topic, 9, more=more, max_wait_ms=0)


def wrong_topics(session, topic):
    ask(session, "unknown partition", topic, 0, partition=7)
    ask(session, "unknown topic", session.topic("absent"), 0)
    ask(session, "empty name", "", 0)
    ask(session, "unknown id", uuid.UUID(int=7), 0, BY_ID)
    ask(session, "id zero", uuid.UUID(int=0), 0, BY_ID)
    ask(session, "unknown partition by id", session.topic_id("fetched"), 0, BY_ID, partition=7)
    mixed = [(topic, [(0, 0, {}), (9, 0, {})]), (session.topic("absent"), [(0, 0, {})])]
    session.step("one of several is wrong", "Fetch", BY_NAME, **request(mixed, BY_NAME))
    session.step("no topics", "Fetch", BY_NAME, **request([], BY_NAME, max_wait_ms=0))
    ask(session, "isolation level 2", topic, 0, isolation_level=2)


def deleted(session, topic):
    wanted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 4}]}]
    session.step("records before 4 are deleted", "DeleteRecords", 2, topics=wanted, timeout_ms=5000)
    for offset in (0, 3, 4):
        ask(session, f"after the deletion: from {offset}", topic, offset)
    topic_id = session.topic_id("fetched")
    session.step("the topic is deleted", "DeleteTopics", 6, topics=[{"name": topic}], timeout_ms=10000)
    ask(session, "after the topic is gone, by name", topic, 0, max_wait_ms=0)
    ask(session, "after the topic is gone, by id", topic_id, 0, BY_ID, max_wait_ms=0)
