"""ApiVersions, Metadata, DescribeCluster, FindCoordinator, OffsetForLeaderEpoch, DescribeTopicPartitions."""

import struct
import uuid

from wire import Closed, Connection

T = 1_700_000_000_000


def versions(session):
    named = {"client_software_name": "differential", "client_software_version": "1"}
    for version, fields in {0: {}, 2: {}, 3: named, 4: named}.items():
        answer = session.raw("ApiVersions", version, **fields)
        session.keep(f"ApiVersions {version}: error", answer["error_code"])
    ranges = {key["api_key"]: [key["min_version"], key["max_version"]] for key in answer["api_keys"]}
    session.keep("ApiVersions: keys", {str(key): ranges[key] for key in sorted(ranges)})
    for name in ("", "-x", "a b", "a_b", "a-"):
        fields = {"client_software_name": name, "client_software_version": "1"}
        session.connection.send("ApiVersions", 3, fields)
        session.keep(f"ApiVersions: software name '{name}'", error_of(session.connection.read_frame()))
    for name, key, version in (
        ("ApiVersions 99", 18, 99),
        ("an unknown key", 999, 0),
        ("Metadata 99", 3, 99),
        ("Produce 2", 0, 2),
        ("Fetch 3", 1, 3),
        ("a negative version", 3, -1),
        ("ControlledShutdown", 7, 0),
    ):
        session.keep(f"raw: {name}", raw(session.address, key, version))


def error_of(frame):
    """The error that an answer to ApiVersions begins with, in every version."""
    return struct.unpack_from(">h", frame, 4)[0]


def raw(address, key, version):
    """What a request of a version that is not there gets: the first bytes of the answer, or a close."""
    connection = Connection(address)
    body = struct.pack(">hhih", key, version, 1, 1) + b"c\0"
    connection.socket.sendall(struct.pack(">i", len(body)) + body)
    try:
        return {"error_code": error_of(connection.read_frame())}
    except Closed:
        return "closed"
    finally:
        connection.close()


def topics(session):
    topic = session.create("known", partitions=2)
    named = [{"name": topic}]
    for version in (0, 1, 4, 5, 7, 8, 9):
        session.step(f"Metadata {version}", "Metadata", version, topics=named)
    full = {"topic_id": uuid.UUID(int=0), "name": topic}
    for version in (10, 11, 12, 13):
        session.step(f"Metadata {version}", "Metadata", version, topics=[full], allow_auto_topic_creation=False)
    quiet = {"allow_auto_topic_creation": False}
    for name, wanted in {
        "by id": {"topic_id": session.topic_id("known"), "name": None},
        "by an unknown id": {"topic_id": uuid.UUID(int=5), "name": None},
        "by id zero and no name": {"topic_id": uuid.UUID(int=0), "name": None},
        "unknown": {"name": session.topic("absent")},
        "empty": {"name": ""},
        "with a slash": {"name": "a/b"},
        "dot": {"name": "."},
        "too long": {"name": "x" * 250},
    }.items():
        session.step(
            f"Metadata: topic {name}", "Metadata", 12, topics=[{"topic_id": uuid.UUID(int=0), **wanted}], **quiet
        )
    for name in ("a/b", "", "x" * 250):
        session.step(
            f"Metadata creates '{name[:3]}'", "Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=True
        )
    session.step("Metadata: no topics", "Metadata", 9, topics=[])
    session.step("Metadata: a topic twice", "Metadata", 9, topics=named + named, **quiet)
    rights = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    session.step("Metadata: rights", "Metadata", 9, topics=named, **rights, **quiet)


def cluster(session):
    session.step("DescribeCluster", "DescribeCluster", 1, include_cluster_authorized_operations=True, endpoint_type=1)
    session.step(
        "DescribeCluster: controllers",
        "DescribeCluster",
        1,
        include_cluster_authorized_operations=False,
        endpoint_type=2,
    )
    session.step(
        "DescribeCluster: endpoint 9",
        "DescribeCluster",
        1,
        include_cluster_authorized_operations=False,
        endpoint_type=9,
    )


def partitions(session):
    topic = session.create("known", partitions=2)
    partitions = {"topics": [{"name": topic}, {"name": session.topic("absent")}], "response_partition_limit": 10}
    session.step("DescribeTopicPartitions", "DescribeTopicPartitions", 0, **partitions)
    cursor = {"topic_name": topic, "partition_index": 1}
    session.step("DescribeTopicPartitions from a cursor", "DescribeTopicPartitions", 0, cursor=cursor, **partitions)
    few = {**partitions, "response_partition_limit": 1}
    session.step("DescribeTopicPartitions, one at a time", "DescribeTopicPartitions", 0, **few)


def coordinators(session):
    session.wait_for_coordinator()
    for version in (0, 1, 3):
        fields = {} if version == 0 else {"key_type": 0}
        session.step(f"FindCoordinator {version}", "FindCoordinator", version, key=session.group("g"), **fields)
        session.step(f"FindCoordinator {version}: empty", "FindCoordinator", version, key="", **fields)
    for version in (4, 5, 6):
        keys = [session.group("g"), session.group("h")]
        session.step(f"FindCoordinator {version}", "FindCoordinator", version, key_type=0, coordinator_keys=keys)
        session.step(f"FindCoordinator {version}: empty", "FindCoordinator", version, key_type=0, coordinator_keys=[""])
        session.step(
            f"FindCoordinator {version}: type 7", "FindCoordinator", version, key_type=7, coordinator_keys=["x"]
        )
    session.step("FindCoordinator: no keys", "FindCoordinator", 4, key_type=0, coordinator_keys=[])


def epochs(session):
    topic = session.create("known")
    for name, part in {
        "epoch 0": {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0},
        "epoch 5": {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 5},
        "epoch -1": {"partition": 0, "current_leader_epoch": -1, "leader_epoch": -1},
        "fenced": {"partition": 0, "current_leader_epoch": 3, "leader_epoch": 0},
        "unknown partition": {"partition": 8, "current_leader_epoch": -1, "leader_epoch": 0},
    }.items():
        wanted = [{"topic": topic, "partitions": [part]}]
        session.step(f"OffsetForLeaderEpoch: {name}", "OffsetForLeaderEpoch", 4, replica_id=-1, topics=wanted)
