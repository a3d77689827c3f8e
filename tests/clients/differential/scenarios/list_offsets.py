"""ListOffsets: every special timestamp, times in no order, bounds, and what is wrong with a request."""

from batches import batch

T = 1_700_000_000_000
FORMAT_TIMES = [300, 100, 200]
LATEST, EARLIEST, GREATEST, EARLIEST_LOCAL, LAST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
SINCE = {LATEST: 1, EARLIEST: 1, GREATEST: 7, EARLIEST_LOCAL: 8, LAST_TIERED: 9}


def ask(session, name, topic, timestamp, version=10, partition=0, isolation=0, epoch=-1):
    part = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
    fields = {"replica_id": -1, "topics": [{"name": topic, "partitions": [part]}]}
    if version >= 2:
        fields["isolation_level"] = isolation
    return session.step(name, "ListOffsets", version, **fields)


def run(session):
    topic = session.create("times")
    session.produce(topic, batch([T + time for time in FORMAT_TIMES]))
    session.produce(topic, batch([T + 250, T + 300, T + 50], attributes=1))
    session.produce(topic, batch([T + 300, T + 400, T + 400]))
    for special, since in SINCE.items():
        for version in sorted({since, 4, 10} if since < 4 else {since, 10}):
            ask(session, f"special {special} in version {version}", topic, special, version)
        if since > 1:
            ask(session, f"special {special} in version {since - 1}, too early", topic, special, since - 1)
    for wrong in (PENDING_UPLOAD, -7, -(2**63)):
        ask(session, f"unknown special {wrong}", topic, wrong)
    for time in (0, 99, 100, 101, 200, 250, 251, 300, 301, 400, 401):
        ask(session, f"time T+{time}", topic, T + time)
    ask(session, "time 0", topic, 0)
    ask(session, "the greatest possible time", topic, 2**63 - 1)
    bounds(session, topic)
    empty(session)
    wrong_requests(session, topic)


def bounds(session, topic):
    for isolation in (0, 1):
        for special in (LATEST, EARLIEST, GREATEST):
            ask(session, f"special {special}, isolation {isolation}", topic, special, isolation=isolation)
    trimmed = [{"partition_index": 0, "offset": 4}]
    topics = [{"name": topic, "partitions": trimmed}]
    session.step("records before 4 are deleted", "DeleteRecords", 2, topics=topics, timeout_ms=5000)
    for special in (LATEST, EARLIEST, GREATEST, EARLIEST_LOCAL):
        ask(session, f"after the deletion: special {special}", topic, special)
    for time in (100, 300, 400):
        ask(session, f"after the deletion: time T+{time}", topic, T + time)


def empty(session):
    topic = session.create("empty")
    for special in SINCE:
        ask(session, f"empty: special {special}", topic, special)
    ask(session, "empty: time 0", topic, 0)


def wrong_requests(session, topic):
    ask(session, "unknown partition", topic, LATEST, partition=1)
    ask(session, "negative partition", topic, LATEST, partition=-1)
    ask(session, "unknown topic", session.topic("absent"), LATEST)
    ask(session, "empty topic name", "", LATEST)
    for epoch in (0, 1, -2):
        ask(session, f"leader epoch {epoch}", topic, LATEST, epoch=epoch)
        ask(session, f"leader epoch {epoch} by time", topic, T + 100, epoch=epoch)
    ask(session, "isolation level 2", topic, LATEST, isolation=2)
    twice = [{"partition_index": 0, "timestamp": LATEST}, {"partition_index": 0, "timestamp": EARLIEST}]
    session.step("a partition twice", "ListOffsets", 10, replica_id=-1, topics=[{"name": topic, "partitions": twice}])
    session.step("no topics", "ListOffsets", 10, replica_id=-1, topics=[])
    session.step(
        "a consumer that says it is broker 7",
        "ListOffsets",
        10,
        replica_id=7,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "timestamp": LATEST}]}],
    )
