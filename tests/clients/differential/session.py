"""One scenario's talk with a server. What differs from run to run is replaced by names in the order seen."""

import base64
import time
import uuid

from batches import summary
from wire import Closed, Connection, Silent

NO_ID = uuid.UUID(int=0)
# Texts are for people: they need not be the same.
DROPPED = {"throttle_time_ms", "error_message", "batch_index_error_message"}
NUMBERED = {
    "producer_id": "producer",
    "member_id": "member",
    "leader": "member",
    "session_id": "session",
    "log_append_time_ms": "time",
    "cluster_id": "cluster",
    "host": "host",
    "port": "port",
    "log_dir": "directory",
    "client_host": "host",
}
NODES = {"node_id", "leader_id", "controller_id", "replica_nodes", "isr_nodes", "broker_id", "replicas"}
# What stands for none, or for a value that is the same everywhere.
PLAIN = {"producer_id": (-1,)}
PLAIN_OTHERWISE = (None, "", -1, 0)


class Session:
    """address: [USER:PASSWORD@]HOST:PORT; settle_seconds: how long a server may take until a change that it answered is
    seen by the next request."""

    def __init__(self, address, scenario, settle_seconds=0):
        credentials, _, self.address = address.rpartition("@")
        self.credentials = credentials.partition(":")[::2] if credentials else None
        self.settle_seconds = settle_seconds
        self.connection = self.connect()
        self.prefix = f"{scenario}-{uuid.uuid4().hex[:8]}-"
        self.names = {}
        self.topic_ids = {}
        self.steps = {}
        self.node = self.raw("Metadata", 9, topics=[])["brokers"][0]["node_id"]

    def connect(self):
        connection = Connection(self.address)
        if self.credentials:
            connection.login(*self.credentials)
        return connection

    def topic(self, name):
        return self.prefix + name

    def group(self, name):
        return self.prefix + name

    def raw(self, api, version, **fields):
        return self.connection.call(api, version, fields)

    def tried(self, api, version, **fields):
        """The answer, or the word for there being none."""
        try:
            return self.raw(api, version, **fields)
        except (Closed, Silent) as error:
            self.connection.close()
            self.connection = self.connect()
            return type(error).__name__.lower()

    def step(self, name, api, version, **fields):
        """Sends, and keeps the answer, or that there was none."""
        answer = self.tried(api, version, **fields)
        self.keep(name, answer if isinstance(answer, str) else self.plain(answer))
        return None if isinstance(answer, str) else answer

    def keep(self, name, value):
        assert name not in self.steps, f"two steps are called {name}"
        self.steps[name] = value

    def create(self, name, partitions=1, **configs):
        """A topic for this scenario alone; its full name."""
        topic = self.topic(name)
        entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": entries}
        answer = self.raw("CreateTopics", 7, topics=[wanted], timeout_ms=10000)["topics"][0]
        assert answer["error_code"] == 0, answer
        self.topic_ids[answer["topic_id"]] = name
        self.wait_for(topic, partitions)
        self.settle()
        return topic

    def topic_id(self, name):
        return next(topic_id for topic_id, known in self.topic_ids.items() if known == name)

    def wait_for(self, topic, partitions):
        """Kafka answers before the topic can be used."""
        for _ in range(200):
            found = self.raw("Metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=False)["topics"][0]
            if found["error_code"] == 0 and len(found["partitions"]) == partitions:
                if all(each["error_code"] == 0 for each in found["partitions"]):
                    return
        raise AssertionError(f"topic {topic} does not come")

    def settle(self):
        time.sleep(self.settle_seconds)

    def wait_for_coordinator(self):
        """Kafka creates its topic of offsets with the first question."""
        for _ in range(200):
            answer = self.raw("FindCoordinator", 3, key=self.group("g"), key_type=0)
            if answer["error_code"] == 0:
                fields = {"group_id": self.group("none"), "topics": None, "require_stable": False}
                if self.raw("OffsetFetch", 7, **fields)["error_code"] == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("there is no group coordinator")

    def wait_for_transactions(self):
        """Kafka creates its topic of transactions with the first question."""
        for _ in range(200):
            found = self.raw("FindCoordinator", 3, key=self.topic("first"), key_type=1)["error_code"]
            fields = {"transactional_id": self.topic("first"), "transaction_timeout_ms": 60000}
            if found == 0 and self.raw("InitProducerId", 4, **fields)["error_code"] == 0:
                return
            time.sleep(0.05)
        raise AssertionError("there is no transaction coordinator")

    def ask_elsewhere(self, api, version, **fields):
        """A request on a connection of its own; call what is returned to wait for its answer."""
        connection = self.connect()
        connection.send(api, version, fields)

        def answer(name):
            found = connection.receive(api, version)
            connection.close()
            self.keep(name, self.plain(found))
            return found

        return answer

    def produce(self, topic, *batches, partition=0):
        for records in batches:
            data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
            answer = self.raw("Produce", 9, acks=-1, timeout_ms=10000, topic_data=data)
            part = answer["responses"][0]["partition_responses"][0]
            assert part["error_code"] == 0, part

    def name_of(self, kind, value):
        names = self.names.setdefault(kind, {})
        return f"<{kind} {names.setdefault(value, len(names) + 1)}>"

    def plain(self, value, key=None):
        """An answer as it is kept: comparable between servers and runs."""
        if isinstance(value, dict):
            return {name: self.plain(part, name) for name, part in value.items() if name not in DROPPED}
        if key == "records":
            return summary(None if value is None else bytes(value))
        if isinstance(value, (list, tuple, set, frozenset)):
            return in_order([self.plain(part, key) for part in value])
        if isinstance(value, uuid.UUID):
            return str(value) if value == NO_ID else f"<id of {self.topic_ids.get(value, 'another topic')}>"
        if isinstance(value, (bytes, bytearray, memoryview)):
            return "base64:" + base64.b64encode(bytes(value)).decode()
        if key in NODES and value == self.node:
            return "<node>"
        if key == "documentation":
            return None if value is None else "<text>"
        if key in NUMBERED and value not in PLAIN.get(key, PLAIN_OTHERWISE):
            return self.name_of(NUMBERED[key], value)
        if key == "resource_name" and value == str(self.node):
            return "<node>"
        if isinstance(value, str):
            for separator in "-._":
                value = value.replace(self.prefix.replace("-", separator), "")
            return value
        return value


def in_order(parts):
    """Servers name topics and partitions in any order."""
    for key in ("name", "topic", "topic_id", "group_id", "partition_index", "partition", "index"):
        if parts and all(isinstance(part, dict) and isinstance(part.get(key), (str, int)) for part in parts):
            return sorted(parts, key=lambda part: part[key])
    return parts
