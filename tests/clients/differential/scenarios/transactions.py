"""Transactions: their steps in and out of order, wrong producers, fencing, what readers see."""

import time

from batches import batch
from scenarios.fetch import BY_NAME, request
from scenarios.groups import part

# Of this time, as the markers are: Kafka would put records of another year into another segment, and a fetch ends there.
NOW = int(time.time() * 1000)
TRANSACTIONAL = 16
CONCURRENT_TRANSACTIONS = 51
TRIES = 100


def begin(session, name):
    """A transactional id with its producer id and epoch. The coordinator of Kafka may not be there at once."""
    transactional_id = session.topic(name)
    answer = patient(session, "InitProducerId", 4, transactional_id=transactional_id, transaction_timeout_ms=60000)
    return transactional_id, answer["producer_id"], answer["producer_epoch"]


def patient(session, api, version, **fields):
    """The first answer that is neither that the coordinator is busy nor that it is not there."""
    for _ in range(TRIES):
        answer = session.raw(api, version, **fields)
        if answer["error_code"] not in (14, 15, 16, CONCURRENT_TRANSACTIONS):
            return answer
        time.sleep(0.05)
    return answer


def find_coordinator(session):
    patient(session, "FindCoordinator", 3, key=session.topic("t"), key_type=1)


def add(session, name, producer, topics):
    transactional_id, producer_id, epoch = producer
    named = [{"name": topic, "partitions": partitions} for topic, partitions in topics]
    fields = {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer_id,
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": named,
    }
    return session.step(name, "AddPartitionsToTxn", 3, **fields)


def finish(session, name, producer, committed):
    transactional_id, producer_id, epoch = producer
    fields = {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": epoch}
    return session.step(name, "EndTxn", 3, committed=committed, **fields)


def send(session, name, producer, topic, sequence, partition=0, **more):
    transactional_id, producer_id, epoch = producer
    attributes = more.pop("attributes", TRANSACTIONAL)
    records = batch([NOW] * 2, attributes=attributes, producer_id=producer_id, epoch=epoch, sequence=sequence)
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    fields = {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 5000, "topic_data": data, **more}
    return session.step(name, "Produce", 9, **fields)


def read(session, name, topic, isolation):
    topics = [(topic, [(0, 0, {})])]
    fields = request(topics, BY_NAME, max_wait_ms=0, min_bytes=0, isolation_level=isolation)
    session.step(name, "Fetch", BY_NAME, **fields)


def run(session):
    find_coordinator(session)
    topic = session.create("written", partitions=2)
    producer = begin(session, "t")
    finish(session, "a commit before anything", producer, True)
    send(session, "a produce to a partition that was not added", producer, topic, 0)
    add(session, "add", producer, [(topic, [0])])
    add(session, "add again", producer, [(topic, [0])])
    add(session, "add one that is there and one that is not", producer, [(topic, [1, 9])])
    send(session, "in the transaction", producer, topic, 0)
    send(session, "without the transactional bit", producer, topic, 2, attributes=0)
    read_both(session, "while it is open", topic)
    describe(session, "DescribeTransactions while it is open", producer)
    wrong(session, producer, topic)
    finish(session, "a commit", producer, True)
    finish_settles(session, producer)
    finish(session, "the same commit again", producer, True)
    finish(session, "an abort after the commit", producer, False)
    read_both(session, "after the commit", topic)
    add(session, "the next one", producer, [(topic, [0])])
    send(session, "in the next one", producer, topic, 2)
    finish(session, "an abort", producer, False)
    finish_settles(session, producer)
    read_both(session, "after the abort", topic)
    fencing(session, producer, topic)


def finish_settles(session, producer):
    """Kafka answers EndTxn before its markers are written; until then the next step is refused."""
    for _ in range(TRIES):
        answer = session.raw("DescribeTransactions", 0, transactional_ids=[producer[0]])
        if answer["transaction_states"][0]["transaction_state"] not in ("PrepareCommit", "PrepareAbort"):
            return
        time.sleep(0.05)


def describe(session, name, producer):
    answer = session.raw("DescribeTransactions", 0, transactional_ids=[producer[0]])
    for state in answer["transaction_states"]:
        state["transaction_start_time_ms"] = "<time>" if state["transaction_start_time_ms"] > 0 else -1
    session.keep(name, session.plain(answer))


def read_both(session, name, topic):
    for isolation, level in enumerate(("uncommitted", "committed")):
        read(session, f"{name}: read {level}", topic, isolation)
    part = {"partition_index": 0, "timestamp": -1}
    wanted = {"replica_id": -1, "isolation_level": 1, "topics": [{"name": topic, "partitions": [part]}]}
    session.step(f"{name}: the last stable offset", "ListOffsets", 7, **wanted)


def wrong(session, producer, topic):
    transactional_id, producer_id, epoch = producer
    stranger = (session.topic("never"), producer_id, epoch)
    other = (transactional_id, producer_id + 1, epoch)
    newer = (transactional_id, producer_id, epoch + 1)
    older = (transactional_id, producer_id, epoch - 1)
    empty = ("", producer_id, epoch)
    for name, who in {
        "an unknown transactional id": stranger,
        "another producer id": other,
        "a newer epoch": newer,
        "an older epoch": older,
        "an empty transactional id": empty,
    }.items():
        add(session, f"AddPartitionsToTxn: {name}", who, [(topic, [0])])
        finish(session, f"EndTxn: {name}", who, True)


def fencing(session, producer, topic):
    transactional_id, producer_id, epoch = producer
    add(session, "left open", producer, [(topic, [0])])
    again = {"transactional_id": transactional_id, "transaction_timeout_ms": 60000}
    # The abort of what was left open may be done at once, or need another try.
    successor = begin(session, "t")
    session.keep("a second instance begins", {"same id": successor[1] == producer_id, "newer": successor[2] > epoch})
    add(session, "the first adds", producer, [(topic, [0])])
    finish(session, "the first commits", producer, True)
    send(session, "the first produces", producer, topic, 4)
    mine = {"producer_id": producer_id, "producer_epoch": epoch}
    session.step("the first begins again with its epoch", "InitProducerId", 4, **again, **mine)
    mine = {"producer_id": successor[1], "producer_epoch": successor[2]}
    answer = session.raw("InitProducerId", 4, **again, **mine)
    later = {"error_code": answer["error_code"], "epochs later": answer["producer_epoch"] - successor[2]}
    session.keep("the second begins again with its epoch", later)


def offsets(session):
    session.wait_for_coordinator()
    find_coordinator(session)
    topic, group = session.create("read"), session.group("readers")
    producer = begin(session, "t")
    transactional_id, producer_id, epoch = producer

    def who():
        return {
            "transactional_id": transactional_id,
            "group_id": group,
            "producer_id": producer_id,
            "producer_epoch": epoch,
        }

    def offset_commit(name, offset, **more):
        topics = [{"name": topic, "partitions": [part(offset=offset)]}]
        session.step(name, "TxnOffsetCommit", 3, **who() | more, topics=topics)

    def look(name, stable=True):
        session.step(name, "OffsetFetch", 7, group_id=group, topics=None, require_stable=stable)

    offset_commit("a commit before the group was added", 1)
    session.step("the group is added", "AddOffsetsToTxn", 3, **who())
    offset_commit("a commit", 2)
    named = [{"name": topic, "partition_indexes": [0]}]
    session.step("a stable read before the end", "OffsetFetch", 7, group_id=group, topics=named, require_stable=True)
    session.step("a read before the end", "OffsetFetch", 7, group_id=group, topics=named, require_stable=False)
    offset_commit("of an unknown generation", 3, generation_id=5, member_id="nobody")
    offset_commit("of an older epoch", 3, producer_epoch=epoch - 1)
    finish(session, "the end", producer, True)
    finish_settles(session, producer)
    session.settle()
    look("after the commit")
    session.step("the group is added to the next", "AddOffsetsToTxn", 3, **who())
    offset_commit("a commit that is aborted", 7)
    finish(session, "the abort", producer, False)
    finish_settles(session, producer)
    session.settle()
    look("after the abort")
