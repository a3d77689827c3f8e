"""confluent-kafka and psycopg against a running server: BOOTSTRAP PG."""

import datetime
import sys

from confluent_kafka import OFFSET_END, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from checks import TIMEOUT, Checks, connect, consumer, create_topic, offset_at, one, produce, same, take

T = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def main(bootstrap, pg):
    checks = Checks()
    for codec in CODECS:
        with checks.check(f"confluent-kafka produces and consumes with {codec}"):
            round_trip(bootstrap, codec)
    with checks.check("confluent-kafka seeks by time"):
        for step in (0, 7, 99):
            same(offset_at(bootstrap, "python_zstd", T + step), step)
        same(offset_at(bootstrap, "python_zstd", T + 100), OFFSET_END)
    with checks.check("confluent-kafka group commits and goes on"):
        group_goes_on(bootstrap)
    with checks.check("confluent-kafka admin alters configs and adds partitions"):
        admin_alters(bootstrap)
    with checks.check("confluent-kafka admin is told that there is no authorizer"):
        no_authorizer(bootstrap)
    with connect(pg) as connection:
        with checks.check("confluent-kafka transactions are all or nothing, for SQL as well"):
            transactions(bootstrap, connection)
        with checks.check("confluent-kafka copies with the position of its group in the transaction"):
            copy(bootstrap, connection)
        with checks.check("psycopg reads rows with their types"):
            types(bootstrap, connection)
        with checks.check("psycopg sends parameters"):
            after = datetime.datetime.fromtimestamp((T + 90) / 1000, datetime.timezone.utc)
            statement = "SELECT count(*) FROM python_none WHERE ts >= %s AND _value <> %s"
            same(one(connection, statement, (after, "v95")), 9)
        with checks.check("psycopg runs a statement often enough for prepared and binary use"):
            for _ in range(10):
                with connection.cursor(binary=True) as cursor:
                    row = cursor.execute("SELECT ts, _offset FROM python_none WHERE _offset = %s", (5,)).fetchone()
                    same((int(row[0].timestamp() * 1000), row[1]), (T + 5, 5))
        with checks.check("psycopg errors carry the SQLSTATE"):
            try:
                connection.execute("SELECT * FROM nowhere")
            except Exception as error:
                same(error.sqlstate, "42P01")
            else:
                raise AssertionError("the statement did not fail")
    checks.end()


def round_trip(bootstrap, codec):
    topic = f"python_{codec}"
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [(T + step, f"v{step}") for step in range(100)], codec)
    client = consumer(bootstrap, "python")
    client.assign([TopicPartition(topic, 0, 0)])
    messages = take(client, 100)
    client.close()
    same([message.offset() for message in messages], list(range(100)))
    same([message.value().decode() for message in messages], [f"v{step}" for step in range(100)])
    same([message.timestamp()[1] for message in messages], [T + step for step in range(100)])


def transactional(bootstrap, name):
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(TIMEOUT)
    return producer


def transactions(bootstrap, connection):
    create_topic(bootstrap, "python_tx", 2)
    count = "SELECT count(*) FROM python_tx"
    zombie = transactional(bootstrap, "python_tx")
    zombie.begin_transaction()
    zombie.produce("python_tx", "zombie", partition=0)
    same(zombie.flush(TIMEOUT), 0)
    producer = transactional(bootstrap, "python_tx")
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(10):
            producer.produce("python_tx", f"v{number}", partition=number % 2)
        same(producer.flush(TIMEOUT), 0)
        same(one(connection, count), 0)
        end(TIMEOUT)
    same(one(connection, count), 10)
    try:
        zombie.commit_transaction(TIMEOUT)
    except KafkaException as error:
        same(error.args[0].fatal() or error.args[0].txn_requires_abort(), True)
    else:
        raise AssertionError("the zombie committed")
    same(one(connection, count), 10)


def copy(bootstrap, connection):
    create_topic(bootstrap, "python_from")
    create_topic(bootstrap, "python_to")
    produce(bootstrap, "python_from", [(T + step, f"v{step}") for step in range(20)])
    producer = transactional(bootstrap, "python_copier")
    client = consumer(bootstrap, "python_copiers")
    client.subscribe(["python_from"])
    for attempt, end in enumerate((producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)):
        messages = take(client, 10)
        producer.begin_transaction()
        for message in messages:
            producer.produce("python_to", message.value())
        position = [TopicPartition("python_from", 0, messages[-1].offset() + 1)]
        producer.send_offsets_to_transaction(position, client.consumer_group_metadata(), TIMEOUT)
        end(TIMEOUT)
        if attempt == 1:
            client.seek(TopicPartition("python_from", 0, messages[0].offset()))
    same(client.committed([TopicPartition("python_from", 0)], TIMEOUT)[0].offset, 20)
    client.close()
    same(one(connection, "SELECT count(DISTINCT _value) FROM python_to"), 20)
    same(one(connection, "SELECT count(*) FROM python_to"), 20)


def group_goes_on(bootstrap):
    for start in (0, 10):
        client = consumer(bootstrap, "python_group")
        client.subscribe(["python_lz4"])
        messages = take(client, 10)
        same(messages[0].offset(), start)
        client.commit(message=messages[-1], asynchronous=False)
        client.close()


def admin_alters(bootstrap):
    topic = "python_admin"
    create_topic(bootstrap, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def alter(name, value, operation):
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(TIMEOUT)

    alter("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    alter("retention.ms", "86400000", AlterConfigOpType.SET)
    alter("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    described = ConfigResource(ConfigResource.Type.TOPIC, topic)
    configs = admin.describe_configs([described])[described].result(TIMEOUT)
    same((configs["cleanup.policy"].value, configs["retention.ms"].value), ("compact", "86400000"))
    same([configs[name].is_default for name in ("cleanup.policy", "segment.ms")], [False, True])
    try:
        alter("no.such.config", "1", AlterConfigOpType.SET)
    except KafkaException as error:
        same(error.args[0].name(), "INVALID_CONFIG")
    else:
        raise AssertionError("an unknown config was accepted")
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT)
    same(len(admin.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions), 5)


def no_authorizer(bootstrap):
    rule = AclBinding(
        ResourceType.TOPIC,
        "python_admin",
        ResourcePatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.create_acls([rule])[rule].result(TIMEOUT)
    except KafkaException as error:
        same(error.args[0].name(), "SECURITY_DISABLED")
    else:
        raise AssertionError("a rule was created")


def types(bootstrap, connection):
    create_topic(bootstrap, "python_types")
    value = '{"n": 9007199254740993, "f": 1.5, "ok": true, "s": "text", "j": {"a": [1]}, "at": "2015-09-12T12:00:00Z"}'
    produce(bootstrap, "python_types", [(T, value)])
    row = connection.execute("SELECT n, f, ok, s, j, at, ts, _key FROM python_types").fetchone()
    at = datetime.datetime(2015, 9, 12, 12, tzinfo=datetime.timezone.utc)
    ts = datetime.datetime.fromtimestamp(T / 1000, datetime.timezone.utc)
    same(row, (9007199254740993, 1.5, True, "text", {"a": [1]}, at, ts, None))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
