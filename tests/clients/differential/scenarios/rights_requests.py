"""A request of every API that asks for rights, about things of one user; some name a thing of another user as well."""

import time

from batches import batch
from scenarios.consumer_groups import heartbeat
from scenarios.fetch import request as fetch_request
from scenarios.groups import beat, join, part, sync
from scenarios.principals import EVERY_RULE, KINDS, SCRAM_SHA_256, rule

UNKNOWN_PRODUCER = 4_000_000_000
TRANSACTIONAL = 16
TOPIC_CONFIGS, BROKER_CONFIGS, GROUP_CONFIGS = 2, 4, 32
RETENTION = {"name": "retention.ms", "value": "1000000000000"}


class Things:
    """The names of what is a user's, and of a topic and a group that are not."""

    def __init__(self, session, label):
        self.session = session
        self.prefix = session.topic(f"{label}-")
        self.others = session.topic("others-")

    def __call__(self, name):
        return self.prefix + name

    def id(self, name):
        return self.session.ids[self(name)]


def requests(mine):
    """(what it is, API, version, fields), in the order in which they can be sent."""
    # All topics are asked for before some are created and deleted, of which Kafka's broker hears later.
    for part_of in (records, configs, topics, groups, consumer_groups, transactions, cluster):
        yield from part_of(mine)


def records(mine):
    topic, other = mine("t"), mine.others + "t"
    now = int(time.time() * 1000)
    plain, idempotent = batch([now]), batch([now], producer_id=UNKNOWN_PRODUCER, epoch=0, sequence=0)
    transactional = batch([now], producer_id=UNKNOWN_PRODUCER, epoch=0, sequence=0, attributes=TRANSACTIONAL)

    def produce(records, *names, transactional_id=None):
        data = [{"name": name, "partition_data": [{"index": 0, "records": records}]} for name in names]
        return {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 5000, "topic_data": data}

    yield "Produce", "Produce", 9, produce(plain, topic, other)
    yield "Produce with a producer id", "Produce", 9, produce(idempotent, topic)
    yield "Produce in a transaction", "Produce", 9, produce(transactional, topic, transactional_id=mine("x"))
    at_start = [(0, 0, {})]
    at_once = {"max_wait_ms": 0, "min_bytes": 0}
    yield "Fetch", "Fetch", 12, fetch_request([(topic, at_start), (other, at_start)], 12, **at_once)
    yield "Fetch by id", "Fetch", 13, fetch_request([(mine.id("t"), at_start)], 13, **at_once)
    ends = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in (topic, other)]
    yield "ListOffsets", "ListOffsets", 7, {"replica_id": -1, "isolation_level": 0, "topics": ends}
    epochs = [{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]} for name in (topic, other)]
    yield "OffsetForLeaderEpoch", "OffsetForLeaderEpoch", 4, {"replica_id": -1, "topics": epochs}
    starts = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in (topic, mine("absent"))]
    yield "DeleteRecords", "DeleteRecords", 2, {"topics": starts, "timeout_ms": 5000}
    producers = [{"name": name, "partition_indexes": [0]} for name in (topic, other)]
    yield "DescribeProducers", "DescribeProducers", 0, {"topics": producers}


def topics(mine):
    topic, other = mine("t"), mine.others + "t"
    operations = {"include_topic_authorized_operations": True}
    no_creation = {"allow_auto_topic_creation": False, **operations}
    named = [{"name": name} for name in (topic, other, mine("absent"))]
    yield "Metadata", "Metadata", 12, {"topics": named, **no_creation}
    by_id = [{"topic_id": mine.id("t"), "name": None}]
    yield "Metadata by id", "Metadata", 12, {"topics": by_id, **no_creation}
    yield "Metadata of all", "Metadata", 12, {"topics": None, **no_creation}
    of_cluster = {"include_cluster_authorized_operations": True}
    yield "Metadata with rights on the cluster", "Metadata", 9, {"topics": [], **no_creation, **of_cluster}
    for what, wanted in {"": named, " of all": []}.items():
        page = {"topics": wanted, "response_partition_limit": 1000}
        yield "DescribeTopicPartitions" + what, "DescribeTopicPartitions", 0, page
    created = {"num_partitions": 1, "replication_factor": 1}
    # Version 7 answers with an id, which a topic that is only checked has in Kafka only.
    yield "CreateTopics, only checked", "CreateTopics", 6, {
        "topics": [{"name": mine("checked"), **created}, {"name": topic, **created}],
        "timeout_ms": 5000,
        "validate_only": True,
    }
    yield "CreateTopics", "CreateTopics", 7, {"topics": [{"name": mine("new"), **created}], "timeout_ms": 5000}
    creation = {"topics": [{"name": mine("auto")}], "allow_auto_topic_creation": True, **operations}
    yield "Metadata that creates", "Metadata", 9, creation
    more = [{"name": name, "count": 2} for name in (topic, mine("absent"))]
    yield "CreatePartitions", "CreatePartitions", 3, {"topics": more, "timeout_ms": 5000, "validate_only": True}
    elections = [{"topic": topic, "partitions": [0]}]
    yield "ElectLeaders", "ElectLeaders", 2, {"election_type": 0, "topic_partitions": elections, "timeout_ms": 5000}
    moves = [{"name": mine("absent"), "partitions": [{"partition_index": 0, "replicas": None}]}]
    yield "AlterPartitionReassignments", "AlterPartitionReassignments", 0, {"timeout_ms": 5000, "topics": moves}
    yield "ListPartitionReassignments", "ListPartitionReassignments", 0, {"timeout_ms": 5000, "topics": None}
    yield "DescribeLogDirs", "DescribeLogDirs", 4, {"topics": [{"topic": topic, "partitions": [0]}]}
    gone = [{"name": name} for name in (mine("gone"), mine("absent"), mine.others + "absent")]
    yield "DeleteTopics", "DeleteTopics", 6, {"topics": gone, "timeout_ms": 5000}
    gone = [{"name": None, "topic_id": mine.id("goes")}]
    yield "DeleteTopics by id", "DeleteTopics", 6, {"topics": gone, "timeout_ms": 5000}


def configs(mine):
    node = str(mine.session.node)
    resources = {
        "a topic": (TOPIC_CONFIGS, mine("t")),
        "an absent topic": (TOPIC_CONFIGS, mine("absent")),
        "a broker": (BROKER_CONFIGS, node),
        "a group": (GROUP_CONFIGS, mine("g")),
    }
    for what, (kind, name) in resources.items():
        resource = {"resource_type": kind, "resource_name": name}
        wanted = [{**resource, "configuration_keys": None}]
        yield f"DescribeConfigs of {what}", "DescribeConfigs", 4, {"resources": wanted}
        set_to = [{**resource, "configs": [RETENTION]}]
        yield f"AlterConfigs of {what}", "AlterConfigs", 2, {"resources": set_to, "validate_only": True}
        operation = [{**resource, "configs": [{**RETENTION, "config_operation": 0}]}]
        yield f"IncrementalAlterConfigs of {what}", "IncrementalAlterConfigs", 1, {
            "resources": operation,
            "validate_only": True,
        }
    yield "ListConfigResources", "ListConfigResources", 1, {"resource_types": [TOPIC_CONFIGS]}


def groups(mine):
    group, topic, other = mine("g"), mine("t"), mine.others + "t"
    for what, name in {"a group": group, "an absent group": mine("absent")}.items():
        yield f"FindCoordinator of {what}", "FindCoordinator", 4, {"key_type": 0, "coordinator_keys": [name]}
    yield "FindCoordinator 3", "FindCoordinator", 3, {"key_type": 0, "key": group}
    # Before there is a group that has no member yet, which Kafka lists or not.
    yield "ListGroups", "ListGroups", 4, {"states_filter": []}
    yield "JoinGroup", "JoinGroup", 7, join(mine("joined"))
    yield "SyncGroup", "SyncGroup", 5, sync(group, "nobody", 1)
    yield "Heartbeat", "Heartbeat", 4, beat(group, "nobody", 1)
    left = [{"member_id": "nobody", "group_instance_id": None, "reason": None}]
    yield "LeaveGroup", "LeaveGroup", 5, {"group_id": group, "members": left}
    described = [group, mine.others + "g", mine("absent")]
    yield "DescribeGroups", "DescribeGroups", 5, {"groups": described, "include_authorized_operations": True}
    by_itself = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    committed = [{"name": name, "partitions": [part(offset=1)]} for name in (topic, other, mine("absent"))]
    yield "OffsetCommit", "OffsetCommit", 8, {"group_id": group, **by_itself, "topics": committed}
    named = [{"name": name, "partition_indexes": [0]} for name in (topic, other)]
    of_groups = [{"group_id": name, "topics": named} for name in (group, mine.others + "g")]
    yield "OffsetFetch", "OffsetFetch", 8, {"groups": of_groups, "require_stable": False}
    of_all = [{"group_id": group, "topics": None}]
    yield "OffsetFetch of all", "OffsetFetch", 8, {"groups": of_all, "require_stable": False}
    deleted = [{"name": name, "partitions": [{"partition_index": 0}]} for name in (topic, other, mine("absent"))]
    yield "OffsetDelete", "OffsetDelete", 0, {"group_id": group, "topics": deleted}
    yield "DeleteGroups", "DeleteGroups", 2, {"groups_names": [mine("old"), mine("absent"), mine.others + "absent"]}


def consumer_groups(mine):
    topic, other = mine("t"), mine.others + "t"
    for what, names in {"": [topic], " with a topic of others": [topic, other]}.items():
        fields = heartbeat(mine("reads" + what.replace(" ", "-")), "member", 0, names)
        yield "ConsumerGroupHeartbeat" + what, "ConsumerGroupHeartbeat", 1, fields
    described = [mine("c"), mine("g"), mine.others + "c"]
    yield "ConsumerGroupDescribe", "ConsumerGroupDescribe", 0, {
        "group_ids": described,
        "include_authorized_operations": True,
    }


def transactions(mine):
    topic, other = mine("t"), mine.others + "t"
    whose = {"transactional_id": mine("x"), "producer_id": UNKNOWN_PRODUCER, "producer_epoch": 0}
    for what, name in {"a transactional id": mine("x"), "an absent transactional id": mine("absent")}.items():
        yield f"FindCoordinator of {what}", "FindCoordinator", 4, {"key_type": 1, "coordinator_keys": [name]}
    for what, name in {"": None, " of a transactional id": mine("x-new")}.items():
        fields = {"transactional_id": name, "transaction_timeout_ms": 60000}
        yield "InitProducerId" + what, "InitProducerId", 4, fields
    for what, names in {"": [topic], " with a topic of others": [topic, other]}.items():
        named = [{"name": name, "partitions": [0]} for name in names]
        yield "AddPartitionsToTxn 3" + what, "AddPartitionsToTxn", 3, {
            "v3_and_below_transactional_id": mine("x"),
            "v3_and_below_producer_id": UNKNOWN_PRODUCER,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": named,
        }
    named = [{"name": topic, "partitions": [0]}]
    verified = [{**whose, "verify_only": True, "topics": named}]
    yield "AddPartitionsToTxn 4", "AddPartitionsToTxn", 4, {"transactions": verified}
    yield "AddOffsetsToTxn", "AddOffsetsToTxn", 3, {**whose, "group_id": mine("g")}
    committed = [{"name": name, "partitions": [part(offset=1)]} for name in (topic, other, mine("absent"))]
    yield "TxnOffsetCommit", "TxnOffsetCommit", 3, {
        **whose,
        "group_id": mine("g"),
        "generation_id": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": committed,
    }
    yield "EndTxn", "EndTxn", 3, {**whose, "committed": True}
    marker = {"producer_id": UNKNOWN_PRODUCER, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0}
    nowhere = [{"name": mine("absent"), "partition_indexes": [0]}]
    yield "WriteTxnMarkers", "WriteTxnMarkers", 1, {"markers": [{**marker, "topics": nowhere}]}
    described = [mine("x"), mine.others + "x", mine("absent")]
    yield "DescribeTransactions", "DescribeTransactions", 0, {"transactional_ids": described}
    yield "ListTransactions", "ListTransactions", 0, {"state_filters": [], "producer_id_filters": []}


def cluster(mine):
    yield "DescribeCluster", "DescribeCluster", 1, {"include_cluster_authorized_operations": True}
    yield "DescribeAcls", "DescribeAcls", 3, {**EVERY_RULE, "principal_filter": "User:nobody"}
    creation = rule("nobody", "topic", mine("t"), "Read")
    yield "CreateAcls", "CreateAcls", 3, {"creations": [creation]}
    deletion = {**EVERY_RULE, "resource_type_filter": KINDS["topic"], "resource_name_filter": mine("t")}
    yield "DeleteAcls", "DeleteAcls", 3, {"filters": [{**deletion, "principal_filter": "User:nobody"}]}
    yield "DescribeClientQuotas", "DescribeClientQuotas", 1, {"components": [], "strict": False}
    user = [{"entity_type": "user", "entity_name": mine("user")}]
    quota = {"entity": user, "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}]}
    yield "AlterClientQuotas", "AlterClientQuotas", 1, {"entries": [quota], "validate_only": True}
    yield "DescribeUserScramCredentials", "DescribeUserScramCredentials", 0, {"users": [{"name": mine("user")}]}
    deleted = [{"name": mine("user"), "mechanism": SCRAM_SHA_256}]
    yield "AlterUserScramCredentials", "AlterUserScramCredentials", 0, {"deletions": deleted, "upsertions": []}
