"""Fetch sessions: full, incremental, forgotten partitions, wrong epochs, unknown sessions, topics that go."""

import uuid

from batches import batch
from scenarios.fetch import BY_ID, BY_NAME, request

T = 1_700_000_000_000
FAST = {"max_wait_ms": 0, "min_bytes": 0}


def by_name(session):
    topic = session.create("one", partitions=3)
    session.produce(topic, batch([T] * 2))
    talk(session, BY_NAME, topic, topic)


def by_id(session):
    topic = session.create("one", partitions=3)
    session.produce(topic, batch([T] * 2))
    talk(session, BY_ID, topic, session.topic_id("one"))


def talk(session, version, topic, key):
    def step(name, topics, number, epoch, **more):
        fields = request(topics, version, session_id=number, session_epoch=epoch, **FAST, **more)
        return session.step(name, "Fetch", version, **fields)

    every = [(key, [(0, 0, {}), (1, 0, {}), (2, 0, {})])]
    number = step("a session is made", every, 0, 0)["session_id"] or 99
    step("nothing is new, but the records come again", [], number, 1)
    step("the position moves on", [(key, [(0, 100, {})])], number, 2)
    step("back to the end", [(key, [(0, end(session, topic), {})])], number, 3)
    step("nothing is new", [], number, 4)
    session.produce(topic, batch([T]), partition=1)
    step("only what changed comes", [], number, 5)
    step("its position moves on", [(key, [(1, end(session, topic, 1), {})])], number, 6)
    forgotten = [{"topic_id" if version >= 13 else "topic": key, "partitions": [1, 2]}]
    session.produce(topic, batch([T]), partition=2)
    step("two are forgotten", [], number, 7, forgotten_topics_data=forgotten)
    step("an unknown partition is added", [(key, [(9, 0, {})])], number, 8)
    step("it is an error again", [], number, 9)
    step("a wrong epoch", [], number, 5)
    step("after a wrong epoch", [], number, 10)
    step("the session is closed", every, number, -1)
    step("it is gone", [], number, 11)


def end(session, topic, partition=0):
    wanted = [{"name": topic, "partitions": [{"partition_index": partition, "timestamp": -1}]}]
    answer = session.raw("ListOffsets", 7, replica_id=-1, isolation_level=0, topics=wanted)
    return answer["topics"][0]["partitions"][0]["offset"]


def refusals(session):
    topic = session.create("one")
    session.produce(topic, batch([T] * 2))
    topic_id = session.topic_id("one")
    named, known_by_id = [(topic, [(0, 0, {})])], [(topic_id, [(0, 0, {})])]

    def step(name, topics, number, epoch, version=BY_NAME):
        fields = request(topics, version, session_id=number, session_epoch=epoch, **FAST)
        return session.step(name, "Fetch", version, **fields)

    step("an unknown session", [], 123456789, 1)
    step("an unknown session, by id", [], 123456789, 1, BY_ID)
    step("no session, but an epoch", named, 0, 5)
    number = step("a session of names", named, 0, 0)["session_id"]
    step("a session of names is asked by id", known_by_id, number, 1, BY_ID)
    number = step("a session of ids", known_by_id, 0, 0, BY_ID)["session_id"]
    step("a session of ids is asked by name", named, number, 1)
    gone = session.create("gone")
    known = session.topic_id("gone")
    session.produce(gone, batch([T]))
    number = step("a session of a topic that will go", [(known, [(0, 0, {})])], 0, 0, BY_ID)["session_id"]
    session.raw("DeleteTopics", 6, topics=[{"name": gone}], timeout_ms=10000)
    session.settle()
    del session.topic_ids[known]
    session.create("gone")
    step("the topic was deleted and made again", [], number, 1, BY_ID)
    step("an id that never was is added", [(uuid.UUID(int=9), [(0, 0, {})])], number, 2, BY_ID)
