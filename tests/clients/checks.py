"""Checks that print "ok NAME" or "FAILED NAME: reason", and the two clients that they use."""

import contextlib
import sys
import traceback

import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

TIMEOUT = 60


class Checks:
    def __init__(self):
        self.failed = 0

    @contextlib.contextmanager
    def check(self, name):
        try:
            yield
        except Exception as error:  # a check may fail in any way; all others still run
            self.failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"FAILED {name}: {type(error).__name__}: {error} (line {where.lineno})", flush=True)
        else:
            print(f"ok {name}", flush=True)

    def end(self):
        sys.exit(1 if self.failed else 0)


def same(found, expected):
    if found != expected:
        raise AssertionError(f"expected {expected!r}, found {found!r}")


def connect(pg):
    host, port = pg.rsplit(":", 1)
    return psycopg.connect(host=host, port=port, user="test", dbname="strandline", autocommit=True)


def one(connection, statement, parameters=None):
    """The one value of a statement."""
    row = connection.execute(statement, parameters).fetchone()
    return row[0]


def create_topic(bootstrap, name, partitions=1):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result(TIMEOUT)


def produce(bootstrap, topic, records, codec="none"):
    """Produces (timestamp, value) pairs to partition 0 and waits for all of them."""
    errors = []
    settings = {
        "bootstrap.servers": bootstrap,
        "compression.codec": codec,
        "linger.ms": 20,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 200_000,
    }
    producer = Producer(settings)
    for timestamp, value in records:
        producer.produce(
            topic,
            value,
            partition=0,
            timestamp=timestamp,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
        producer.poll(0)
    same(producer.flush(TIMEOUT), 0)
    same(errors, [])


def consumer(bootstrap, group):
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


def offset_at(bootstrap, topic, timestamp):
    """The offset that ListOffsets finds; -1 when there is none."""
    client = consumer(bootstrap, "seek")
    try:
        found = client.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=TIMEOUT)[0]
        if found.error:
            raise AssertionError(found.error)
        return found.offset
    finally:
        client.close()


def offset_of_greatest_time(bootstrap, topic):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (found,) = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.max_timestamp()}).values()
    return found.result(TIMEOUT).offset


def take(client, count):
    messages = []
    while len(messages) < count:
        message = client.poll(TIMEOUT)
        if message is None:
            raise AssertionError(f"{len(messages)} of {count} messages came")
        if not message.error():
            messages.append(message)
    return messages
