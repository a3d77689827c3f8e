"""Produce: batches that are wrong in one way each, acks, sizes, topics; and idempotence."""

import time
import uuid

from batches import batch

T = 1_700_000_000_000
HOUR = 3_600_000
CONTROL, TRANSACTIONAL, LOG_APPEND, ZSTD = 32, 16, 8, 4


def ask(session, name, topic, records, version=12, partition=0, acks=-1, transactional_id=None):
    key = "topic_id" if version >= 13 else "name"
    data = [{key: topic, "partition_data": [{"index": partition, "records": records}]}]
    fields = {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 5000, "topic_data": data}
    return session.step(name, "Produce", version, **fields)


def run(session):
    topic = session.create("produced", max_message_bytes="10000")
    good = batch([T, T + 1])
    for version in (3, 5, 7, 8, 9, 11, 12):
        ask(session, f"a good batch in version {version}", topic, good, version)
    ask(session, "a good batch by id", session.topic_id("produced"), good, 13)
    for acks in (1, 2, -2):
        ask(session, f"acks {acks}", topic, good, acks=acks)
    unacknowledged(session, topic, good)


def unacknowledged(session, topic, good):
    """acks=0 has no answer; an error closes the connection, which the next request finds."""
    data = [{"name": topic, "partition_data": [{"index": 0, "records": good}]}]
    session.raw("Produce", 9, acks=0, timeout_ms=5000, topic_data=data)
    session.step("after acks=0", "Metadata", 9, topics=[])
    data = [{"name": topic, "partition_data": [{"index": 9, "records": good}]}]
    session.raw("Produce", 9, acks=0, timeout_ms=5000, topic_data=data)
    session.step("after acks=0 to an unknown partition", "Metadata", 9, topics=[])


def batches(session):
    topic = session.create("produced", max_message_bytes="10000")
    two = [T, T + 1]
    wrong = {
        "no records": None,
        "empty records": b"",
        "half a header": batch(two)[:30],
        "half a batch": batch(two)[:-5],
        "two batches": batch(two) + batch(two),
        "base offset 5": batch(two, base_offset=5),
        "magic 1": batch(two, magic=1),
        "magic 3": batch(two, magic=3),
        "a wrong crc": batch(two, crc=1),
        "no records in a batch": batch([], last_delta=-1),
        "count 0 with records": batch(two, count=0),
        "negative count": batch(two, count=-1),
        "count beyond the records": batch(two, count=3, last_delta=2),
        "count below the records": batch(two, count=1, last_delta=0),
        "last delta beyond the count": batch(two, last_delta=5),
        "a control batch": batch(two, attributes=CONTROL),
        "a transactional batch without a producer": batch(two, attributes=TRANSACTIONAL),
        "an unknown codec": batch(two, attributes=7),
        "a codec that is not what the bytes are": batch(two, attributes=3),
        "too large": batch([T], value=b"v" * 20000),
        "producer without a sequence": batch(two, producer_id=7, epoch=0),
        "sequence without a producer": batch(two, sequence=0),
    }
    for name, records in wrong.items():
        ask(session, name, topic, records)
    lenient = session.create("lenient")
    for name, records in {
        "the LogAppendTime bit": batch(two, attributes=LOG_APPEND),
        "bytes after the batch": batch(two) + b"\0\0\0",
        "deltas that skip": batch(two, deltas=[0, 3]),
        "deltas in reverse": batch(two, deltas=[1, 0]),
        "deltas that skip, compressed": batch(two, deltas=[0, 3], attributes=1),
    }.items():
        ask(session, name, lenient, records)
    ask(session, "zstd in version 6", topic, batch(two, attributes=ZSTD), 6)
    ask(session, "a control batch in version 3", topic, batch(two, attributes=CONTROL), 3)


def times(session):
    topic = session.create("timed")
    now = int(time.time() * 1000)
    for name, at in {"no time": -1, "time -2": -2, "time 0": 0, "two hours ahead": now + 2 * HOUR}.items():
        ask(session, name, topic, batch([at]))
    ask(session, "a greatest time that lies", topic, batch([T], max_time=T + 5))
    old = session.create("old", message_timestamp_before_max_ms=str(HOUR))
    ask(session, "older than before.max", old, batch([now - 2 * HOUR, now]))
    ask(session, "one of two is older than before.max, in version 7", old, batch([now - 2 * HOUR, now]), 7)
    stamped = session.create("stamped", message_timestamp_type="LogAppendTime")
    ask(session, "to a topic with LogAppendTime", stamped, batch([T]))
    ask(session, "in the far future, to a topic with LogAppendTime", stamped, batch([T * 2]))


def places(session):
    topic, good = session.create("placed"), batch([T, T + 1])
    ask(session, "unknown topic", session.topic("absent"), good)
    ask(session, "empty topic name", "", good)
    ask(session, "unknown partition", topic, good, partition=1)
    ask(session, "negative partition", topic, good, partition=-1)
    ask(session, "unknown id", uuid.UUID(int=7), good, 13)
    ask(session, "id zero", uuid.UUID(int=0), good, 13)
    ask(session, "a transactional id without a transaction", topic, good, transactional_id="t")
    part = {"index": 0, "records": good}
    bad = {"index": 0, "records": batch([T], crc=1)}
    for name, topics in {
        "one good and one unknown partition": [{"name": topic, "partition_data": [part, {**part, "index": 4}]}],
        "a partition twice": [{"name": topic, "partition_data": [part, part]}],
        "a partition twice, the first is bad": [{"name": topic, "partition_data": [bad, part]}],
        "no partitions": [{"name": topic, "partition_data": []}],
        "no topics": [],
    }.items():
        session.step(name, "Produce", 12, transactional_id=None, acks=-1, timeout_ms=5000, topic_data=topics)


def compacted(session):
    topic = session.create("compacted", cleanup_policy="compact")
    mixed = batch([T] * 3, keys=[b"a", None, b"b"])
    ask(session, "one record without a key to a compacted topic", topic, mixed)
    ask(session, "one record without a key to a compacted topic, in version 7", topic, mixed, 7)
    ask(session, "no key at all to a compacted topic", topic, batch([T] * 2, keys=[None, None]))
    ask(session, "keys to a compacted topic", topic, batch([T] * 2))


def idempotence(session):
    session.wait_for_transactions()
    topic = session.create("once")
    first = session.step("a producer id", "InitProducerId", 4, transactional_id=None, transaction_timeout_ms=60000)
    producer = first["producer_id"]

    def send(name, sequence, count=2, epoch=0, producer_id=producer):
        records = batch([T] * count, producer_id=producer_id, epoch=epoch, sequence=sequence)
        return ask(session, name, topic, records)

    send("sequence 0", 0)
    send("the same again", 0)
    send("the next", 2)
    send("a gap", 6)
    send("a part of an old one", 2, count=1)
    for step in range(2, 8):
        send(f"sequence {step * 2}", step * 2)
    send("a duplicate of the fifth last", 6)
    send("a duplicate of the sixth last", 4)
    send("a newer epoch not from 0", 16, epoch=1)
    send("a newer epoch from 0", 0, epoch=1)
    send("an older epoch", 2)
    send("an unknown producer from 5", 5, producer_id=producer + 1_000_000)
    send("a producer id never given", 0, producer_id=2**40)
    for name, fields in {
        "timeout 0": {"transactional_id": None, "transaction_timeout_ms": 0},
        "an empty transactional id": {"transactional_id": "", "transaction_timeout_ms": 60000},
        "a timeout that is too long": {"transactional_id": session.topic("t"), "transaction_timeout_ms": 900001},
        "a negative timeout": {"transactional_id": session.topic("t"), "transaction_timeout_ms": -1},
        "an epoch without an id": {"transactional_id": None, "transaction_timeout_ms": 60000, "producer_epoch": 3},
        "an id without an epoch": {"transactional_id": None, "transaction_timeout_ms": 60000, "producer_id": 3},
    }.items():
        session.step(f"InitProducerId: {name}", "InitProducerId", 4, **fields)
