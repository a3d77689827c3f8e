"""Produces, consumes and administers with aiokafka: BOOTSTRAP.
Prints one line per check and ends with 1 if one failed."""

import asyncio
import sys
import uuid

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import ProducerFenced
from aiokafka.structs import OffsetAndMetadata

SECONDS = 60
T = 1_700_000_000_000

bootstrap = sys.argv[1]
failed = False


async def check(name, body):
    global failed
    try:
        async with asyncio.timeout(SECONDS):
            await body()
        print(f"passed\t{name}", flush=True)
    except Exception as error:  # a check may fail in any way; all others still run
        failed = True
        print(f"failed\t{name}\t{type(error).__name__}: {error}".replace("\n", " "), flush=True)


def named(what):
    return f"aiokafka-{what}-{uuid.uuid4()}"


async def created(what, partitions=1):
    topic = named(what)
    async with admin() as client:
        answer = await client.create_topics([NewTopic(topic, partitions, 1)])
        assert answer.topic_errors[0][1] == 0, answer
    return topic


class admin:
    """A client for administration, which is no context manager by itself."""

    async def __aenter__(self):
        self.client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await self.client.start()
        return self.client

    async def __aexit__(self, *_):
        await self.client.close()


def producer(**settings):
    return AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)


def consumer(*topics, **settings):
    return AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, **{"auto_offset_reset": "earliest"} | settings)


async def produce(topic, count, start=0):
    async with producer() as client:
        for step in range(start, start + count):
            await client.send(topic, b"v%d" % step, key=b"k%d" % step, partition=0, timestamp_ms=T + step, headers=[("h", b"x")])


async def values(client, count):
    return [(await client.getone()).value.decode() for _ in range(count)]


def numbered(start, end):
    return [f"v{step}" for step in range(start, end)]


def with_acks(acks):
    async def body():
        topic = await created("acks")
        async with producer(acks=acks) as client:
            sent = [await client.send(topic, b"v%d" % step) for step in range(10)]
            offsets = [answer.offset for answer in await asyncio.gather(*sent)] if acks else None
        assert acks == 0 or offsets == list(range(10)), offsets
        async with consumer(topic) as client:
            assert await values(client, 10) == numbered(0, 10)

    return body


def with_compression(codec):
    async def body():
        topic = await created("compression")
        large = bytes(range(256)) * 800
        async with producer(compression_type=codec, linger_ms=20) as client:
            await client.send_and_wait(topic, large)
            for answer in [await client.send(topic, b"v%d" % step, timestamp_ms=T + step) for step in range(100)]:
                await answer
        async with consumer(topic, check_crcs=True) as client:
            first = await client.getone()
            assert first.value == large, len(first.value)
            assert await values(client, 100) == numbered(0, 100)

    return body


async def idempotent():
    topic = await created("idempotent")
    async with producer(enable_idempotence=True) as client:
        for answer in [await client.send(topic, b"v%d" % step) for step in range(500)]:
            await answer
    async with consumer(topic) as client:
        assert await values(client, 500) == numbered(0, 500)


async def batch():
    topic = await created("batch")
    async with producer() as client:
        builder = client.create_batch()
        for step in range(10):
            assert builder.append(key=None, value=b"v%d" % step, timestamp=T + step) is not None
        answer = await (await client.send_batch(builder, topic, partition=0))
        assert answer.offset == 0, answer
    async with consumer(topic) as client:
        record = await client.getone()
        assert (record.value, record.timestamp) == (b"v0", T), record


async def as_sent():
    topic = await created("fields")
    await produce(topic, 1)
    async with producer() as client:
        await client.send_and_wait(topic, None, key=b"gone")
    async with consumer(topic) as client:
        record, tombstone = await client.getone(), await client.getone()
    assert (record.key, record.value, record.timestamp, record.headers) == (b"k0", b"v0", T, (("h", b"x"),)), record
    assert (tombstone.key, tombstone.value) == (b"gone", None), tombstone


async def group_goes_on():
    topic = await created("group")
    await produce(topic, 20)
    for start, end in ((0, 15), (15, 20)):
        async with consumer(topic, group_id=topic, enable_auto_commit=False) as client:
            assert await values(client, end - start) == numbered(start, end)
            await client.commit()
            assert await client.committed(TopicPartition(topic, 0)) == end


class Listener(ConsumerRebalanceListener):
    def __init__(self):
        self.events = []
        self.changed = asyncio.Event()

    def told(self, what, partitions):
        self.events.append((what, sorted(each.partition for each in partitions)))
        self.changed.set()

    def on_partitions_revoked(self, revoked):
        self.told("revoked", revoked)

    def on_partitions_assigned(self, assigned):
        self.told("assigned", assigned)

    async def has(self, event):
        while event not in self.events:
            self.changed.clear()
            await self.changed.wait()


async def rebalance():
    topic = await created("rebalance", partitions=4)
    settings = {"group_id": topic, "heartbeat_interval_ms": 200, "session_timeout_ms": 6000}
    first, second = Listener(), Listener()
    async with consumer(**settings) as one:
        one.subscribe([topic], listener=first)
        await first.has(("assigned", [0, 1, 2, 3]))
        async with consumer(**settings) as two:
            two.subscribe([topic], listener=second)
            await first.has(("revoked", [0, 1, 2, 3]))
            while len(one.assignment()) != 2 or len(two.assignment()) != 2:
                await asyncio.sleep(0.05)
            assert one.assignment().isdisjoint(two.assignment())
        first.events.clear()
        await first.has(("assigned", [0, 1, 2, 3]))


async def pattern():
    prefix = named("pattern")
    topics = {f"{prefix}-{step}" for step in range(2)}
    async with admin() as client:
        await client.create_topics([NewTopic(topic, 1, 1) for topic in topics])
    for topic in topics:
        await produce(topic, 1)
    async with consumer(group_id=prefix) as client:
        client.subscribe(pattern=f"^{prefix}-.*")
        assert {(await client.getone()).topic for _ in topics} == topics


async def seek():
    topic = await created("seek")
    await produce(topic, 20)
    partition = TopicPartition(topic, 0)
    async with consumer(group_id=None) as client:
        client.assign([partition])
        client.seek(partition, 12)
        assert await values(client, 2) == numbered(12, 14)
        await client.seek_to_beginning(partition)
        assert await values(client, 1) == numbered(0, 1)
        await client.seek_to_end(partition)
        assert await client.position(partition) == 20
        client.pause(partition)
        assert client.paused() == {partition}


async def times():
    topic = await created("times")
    await produce(topic, 20)
    partition = TopicPartition(topic, 0)
    async with consumer() as client:
        found = (await client.offsets_for_times({partition: T + 7}))[partition]
        assert (found.offset, found.timestamp) == (7, T + 7), found
        assert (await client.offsets_for_times({partition: T + 100}))[partition] is None
        assert await client.beginning_offsets([partition]) == {partition: 0}
        assert await client.end_offsets([partition]) == {partition: 20}


async def transactions():
    topic = await created("transactions")
    async with producer(transactional_id=topic) as client:
        async with client.transaction():
            await client.send_and_wait(topic, b"committed")
        await client.begin_transaction()
        await client.send_and_wait(topic, b"aborted")
        await client.abort_transaction()
        async with client.transaction():
            await client.send_and_wait(topic, b"after")
    async with consumer(topic, isolation_level="read_committed") as client:
        assert await values(client, 2) == ["committed", "after"]
    async with consumer(topic, isolation_level="read_uncommitted") as client:
        assert await values(client, 3) == ["committed", "aborted", "after"]


async def open_transaction():
    topic = await created("open")
    partition = TopicPartition(topic, 0)
    async with producer(transactional_id=topic) as client:
        await client.begin_transaction()
        await client.send_and_wait(topic, b"pending")
        async with consumer(topic, isolation_level="read_committed") as reader:
            while not reader.highwater(partition):
                assert await reader.getmany(timeout_ms=100) == {}
            assert (reader.last_stable_offset(partition), reader.highwater(partition)) == (0, 1)
            await client.commit_transaction()
            assert await values(reader, 1) == ["pending"]


async def fenced():
    topic = await created("fenced")
    async with producer(transactional_id=topic) as old:
        async with old.transaction():
            await old.send_and_wait(topic, b"old")
        async with producer(transactional_id=topic) as new:
            async with new.transaction():
                await new.send_and_wait(topic, b"new")
        try:
            async with old.transaction():
                await old.send_and_wait(topic, b"too late")
        except ProducerFenced:
            return
        raise AssertionError("the older producer went on")


async def offsets_in_transaction():
    source, target = await created("source"), await created("target")
    await produce(source, 10)
    partition = TopicPartition(source, 0)
    async with consumer(source, group_id=source, enable_auto_commit=False) as reader, producer(transactional_id=source) as writer:
        for commit in (False, True):
            await writer.begin_transaction()
            for value in await values(reader, 5):
                await writer.send(target, value.encode())
            await writer.send_offsets_to_transaction({partition: OffsetAndMetadata(5, "half")}, source)
            await (writer.commit_transaction() if commit else writer.abort_transaction())
            assert await reader.committed(partition) == (5 if commit else None)
            reader.seek(partition, 0)
    async with consumer(target, isolation_level="read_committed") as client:
        assert await values(client, 5) == numbered(0, 5)


async def topics():
    topic = await created("topics", partitions=2)
    async with admin() as client:
        again = await client.create_topics([NewTopic(topic, 1, 1)])
        assert again.topic_errors[0][1] == 36, again
        assert topic in await client.list_topics()
        await client.create_partitions({topic: NewPartitions(3)})
        described = (await client.describe_topics([topic]))[0]
        assert (described["error_code"], len(described["partitions"])) == (0, 3), described
        assert len((await client.describe_cluster())["brokers"]) == 1
        deleted = await client.delete_topics([topic])
        assert deleted.topic_error_codes[0][1] == 0, deleted
        assert topic not in await client.list_topics()


async def configs():
    topic = await created("configs")
    resource = {"max.message.bytes": "200000"}
    async with admin() as client:
        altered = await client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, resource)])
        assert altered[0].resources[0][0] == 0, altered
        described = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic, resource)])
        entries = {entry[0]: entry[1] for entry in described[0].resources[0][4]}
        assert entries == resource, entries
        broker = await client.describe_configs([ConfigResource(ConfigResourceType.BROKER, "0")])
        assert any(entry[0] == "num.partitions" for entry in broker[0].resources[0][4]), broker


async def groups():
    topic = await created("groups")
    await produce(topic, 3)
    async with consumer(topic, group_id=topic, enable_auto_commit=False) as reader, admin() as client:
        await values(reader, 3)
        await reader.commit()
        assert (topic, "consumer") in await client.list_consumer_groups()
        described = (await client.describe_consumer_groups([topic]))[0].groups[0]
        assert described[1:3] == (topic, "Stable"), described
        offsets = await client.list_consumer_group_offsets(topic)
        assert offsets[TopicPartition(topic, 0)].offset == 3, offsets


async def records_deleted():
    topic = await created("records")
    await produce(topic, 10)
    partition = TopicPartition(topic, 0)
    async with admin() as client:
        assert await client.delete_records({partition: RecordsToDelete(before_offset=4)}) == {partition: 4}
    async with consumer(topic) as client:
        assert await values(client, 6) == numbered(4, 10)


CHECKS = {
    **{f"produces with acks={acks}": with_acks(acks) for acks in (0, 1, "all")},
    **{f"produces with {codec or 'no codec'}": with_compression(codec) for codec in (None, "gzip", "snappy", "lz4", "zstd")},
    "an idempotent producer": idempotent,
    "a batch that the program puts together": batch,
    "keys, times, headers and a tombstone come as sent": as_sent,
    "a group goes on where it was": group_goes_on,
    "a rebalance tells its listeners": rebalance,
    "subscribes to a pattern": pattern,
    "seeks": seek,
    "offsets by time": times,
    "reads what is committed": transactions,
    "waits for an open transaction": open_transaction,
    "an older producer is fenced": fenced,
    "offsets in a transaction": offsets_in_transaction,
    "topics and partitions": topics,
    "configs": configs,
    "groups are listed and described": groups,
    "records are deleted": records_deleted,
}


async def main():
    for name, body in CHECKS.items():
        await check(name, body)


asyncio.run(main())
sys.exit(failed)
