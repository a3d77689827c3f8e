"""Consumer groups over a kill -9 of the server: BINARY DATA.

Starts a server of its own on that path or URL. For each of the two group protocols, members consume while a producer
goes on, the server is killed and started again on the same data, and the members go on: without a
rebalance, and with every record consumed once by the commits.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from checks import Checks, create_topic, same

PARTITIONS = 4
WAIT_SECONDS = 60
STAY_SECONDS = 6
PROTOCOLS = ["classic", "consumer"]


def main(binary, data):
    checks = Checks()
    server = Server(binary, data)
    try:
        for protocol in PROTOCOLS:
            with checks.check(f"{protocol} group goes on over a kill -9 without a rebalance"):
                over_a_kill(server, protocol)
            with checks.check(f"{protocol} group shares what a leaving member had"):
                sharing(server, protocol)
        with checks.check("consumer group subscribes by a regular expression"):
            by_regex(server)
        with checks.check("static member comes back without a rebalance"):
            static_member(server)
        with checks.check("groups are listed, described, reset and deleted"):
            administered(server)
    finally:
        server.kill()
    checks.end()


class Server:
    """The binary on fixed ports, so that clients find it again."""

    def __init__(self, binary, data):
        self.binary, self.data = binary, data
        self.kafka, self.pg = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.process = None
        self.start()

    def start(self):
        command = [self.binary, "serve", "--data", self.data, "--kafka-listen", self.kafka, "--pg-listen", self.pg]
        environment = os.environ | {"STRANDLINE_KAFKA_GROUP_INITIAL_REBALANCE_DELAY": "500ms"}
        self.process = subprocess.Popen(
            command + ["--http-listen", "127.0.0.1:0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
        )
        host, port = self.kafka.split(":")

        def listens():
            with socket.socket() as probe:
                return probe.connect_ex((host, int(port))) == 0

        wait(listens, "the server listens")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def strandline(self, *arguments):
        command = [self.binary, *arguments, "--bootstrap", self.kafka]
        return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait(condition, what):
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"within {WAIT_SECONDS} s: {what}")


def stays(condition, what):
    """For as long as some heartbeats take."""
    deadline = time.monotonic() + STAY_SECONDS
    while time.monotonic() < deadline:
        if not condition():
            raise AssertionError(f"not any more: {what}")
        time.sleep(0.05)


class Member:
    """A consumer in a thread: polls, commits after each record, and notes what happens to it."""

    def __init__(self, server, group, protocol, topics, **settings):
        self.records, self.held, self.changes = [], set(), 0
        settings = {
            "bootstrap.servers": server.kafka,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
        } | settings
        if protocol == "classic":
            settings |= {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 500}
        self.consumer = Consumer(settings)
        self.consumer.subscribe(topics, on_assign=self.assigned, on_revoke=self.revoked)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def assigned(self, _, partitions):
        self.changes += 1
        self.held |= {(one.topic, one.partition) for one in partitions}

    def revoked(self, _, partitions):
        self.changes += 1
        self.held -= {(one.topic, one.partition) for one in partitions}

    def run(self):
        while not self.stopping.is_set():
            message = self.consumer.poll(0.1)
            if message is None or message.error():
                continue
            self.records.append(message.value().decode())
            self.commit(message)

    def commit(self, message):
        while not self.stopping.is_set():
            try:
                self.consumer.commit(message=message, asynchronous=False)
                return
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].name() not in RETRIED:
                    raise

    def partitions(self):
        return sorted(partition for _, partition in self.held)

    def stop(self):
        self.stopping.set()
        self.thread.join(WAIT_SECONDS)
        self.consumer.close()


# What a commit may meet while the server is away.
RETRIED = {"_TRANSPORT", "_ALL_BROKERS_DOWN", "_WAIT_COORD", "_TIMED_OUT", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"}


def produce(server, topic, values):
    producer = Producer({"bootstrap.servers": server.kafka, "enable.idempotence": True})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    same(producer.flush(WAIT_SECONDS), 0)


def over_a_kill(server, protocol):
    topic = group = f"kill_{protocol}"
    create_topic(server.kafka, topic, PARTITIONS)
    members = [Member(server, group, protocol, [topic]) for _ in range(2)]
    try:
        wait(lambda: [len(it.partitions()) for it in members] == [2, 2], "each member has two partitions")
        produce(server, topic, [f"before {number}" for number in range(40)])
        wait(lambda: sum(len(it.records) for it in members) == 40, "all records are consumed")
        before = [it.changes for it in members]
        described = server.strandline("group", "describe", group).stdout
        server.kill()
        server.start()
        produce(server, topic, [f"after {number}" for number in range(40)])
        wait(lambda: sum(len(it.records) for it in members) >= 80, "the members go on")
        stays(lambda: [it.changes for it in members] == before, "the members have what they had")
        consumed = sorted(value for it in members for value in it.records)
        expected = sorted(f"{when} {number}" for when in ("before", "after") for number in range(40))
        same(consumed, expected)
        same(member_ids(server.strandline("group", "describe", group).stdout), member_ids(described))
        same(committed(server, group, topic), 80)
    finally:
        for member in members:
            member.stop()


def member_ids(described):
    """The first column of the last table, below its head."""
    table = described.rstrip().split("\n\n")[-1].splitlines()[2:]
    ids = sorted(line.split()[0] for line in table)
    same(len(ids), 2)
    return ids


def committed(server, group, topic):
    """The sum over all partitions."""
    client = Consumer({"bootstrap.servers": server.kafka, "group.id": group})
    offsets = client.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], WAIT_SECONDS)
    client.close()
    return sum(max(one.offset, 0) for one in offsets)


def sharing(server, protocol):
    topic = group = f"share_{protocol}"
    create_topic(server.kafka, topic, PARTITIONS)
    first, second = (Member(server, group, protocol, [topic]) for _ in range(2))
    try:
        wait(lambda: len(first.partitions()) == len(second.partitions()) == 2, "both have two partitions")
        second.stop()
        wait(lambda: first.partitions() == [0, 1, 2, 3], "the one that stays has all")
        produce(server, topic, [str(number) for number in range(20)])
        wait(lambda: len(first.records) == 20, "all records are consumed")
    finally:
        first.stop()


def by_regex(server):
    create_topic(server.kafka, "regex_a", PARTITIONS)
    member = Member(server, "by_regex", "consumer", ["^regex_.*"])
    try:
        wait(lambda: len(member.partitions()) == 4, "the topic that is there is assigned")
        create_topic(server.kafka, "regex_b", PARTITIONS)
        wait(lambda: len(member.partitions()) == 8, "the topic that comes later is assigned")
    finally:
        member.stop()


def static_member(server):
    topic = group = "static"
    create_topic(server.kafka, topic, PARTITIONS)
    start = lambda name: Member(server, group, "classic", [topic], **{"group.instance.id": name})
    first, second = start("one"), start("two")
    try:
        wait(lambda: len(first.partitions()) == len(second.partitions()) == 2, "both have two partitions")
        had, changes = second.partitions(), first.changes
        second.stop()
        second = start("two")
        wait(lambda: second.partitions() == had, "it has the same partitions again")
        same(first.changes, changes)
    finally:
        first.stop()
        second.stop()


def administered(server):
    admin = AdminClient({"bootstrap.servers": server.kafka})
    wait(lambda: state(admin, "kill_classic") == "EMPTY", "the group is empty")
    described = admin.describe_consumer_groups(["kill_classic"])["kill_classic"].result(WAIT_SECONDS)
    same((described.state.name, len(described.members)), ("EMPTY", 0))
    listed = server.strandline("group", "list").stdout
    assert re.search(r"^kill_consumer +\| consumer +\| consumer +\| Empty", listed, re.M), listed
    planned = server.strandline("group", "reset", "kill_classic", "--to", "earliest", "--dry-run")
    same((planned.returncode, committed(server, "kill_classic", "kill_classic")), (0, 80))
    done = server.strandline("group", "reset", "kill_classic", "--to", "5")
    same((done.returncode, committed(server, "kill_classic", "kill_classic")), (0, 20))
    same(server.strandline("group", "delete", "kill_classic").returncode, 0)
    same(server.strandline("group", "describe", "kill_classic").returncode, 1)
    admin.delete_consumer_groups(["kill_consumer"])["kill_consumer"].result(WAIT_SECONDS)


def state(admin, group):
    listed = admin.list_consumer_groups().result(WAIT_SECONDS).valid
    return next((one.state.name for one in listed if one.group_id == group), None)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
