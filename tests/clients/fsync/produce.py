"""Produces records that the trace is searched for, and waits for what is going on behind them: BOOTSTRAP PG COUNT.

Several producers at a time, each with one request at a time: small records, then some of more than 4 MiB.
"""

import sys
import threading
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from checks import TIMEOUT, connect, one, same
from order import LARGE_BYTES, marker

PRODUCERS = 4
LARGE_RECORDS = 3
LARGE_VALUE = LARGE_BYTES + (1 << 20)
TOPIC = "traced"


def main(bootstrap, pg, count):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(TOPIC, PRODUCERS, 1, config={"max.message.bytes": str(2 * LARGE_VALUE)})
    admin.create_topics([topic])[TOPIC].result(TIMEOUT)
    errors = []
    shares = [range(first, count - LARGE_RECORDS, PRODUCERS) for first in range(PRODUCERS)]
    threads = [threading.Thread(target=produce, args=(bootstrap, at, share, errors)) for at, share in enumerate(shares)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    produce(bootstrap, 0, range(count - LARGE_RECORDS, count), errors, LARGE_VALUE)
    same(errors, [])
    with connect(pg) as connection:
        wait(lambda: one(connection, "SELECT count(*) FROM strandline.segments") > 0, "the WAL is compacted")


def produce(bootstrap, partition, numbers, errors, value_bytes=10):
    """One request after the other, each with one record."""
    settings = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "message.max.bytes": 2 * LARGE_VALUE,
        "linger.ms": 0,
        "topic.metadata.refresh.interval.ms": -1,
    }
    producer = Producer(settings)

    def delivered(error, _):
        if error:
            errors.append(str(error))

    for number in numbers:
        producer.produce(TOPIC, bytes(value_bytes), marker(number), partition, delivered)
        if producer.flush(TIMEOUT):
            errors.append(f"{marker(number)} was not acknowledged within {TIMEOUT} s")
            return


def wait(condition, what):
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"within {TIMEOUT} s: {what}")
        time.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
