"""What `compare` measures with librdkafka: the way of a record from end to end, and the rebalance of a group.

    compare.py end_to_end HOST:PORT TOPIC     # 99th percentile in ms, at 1,000 records a second
    compare.py rebalance HOST:PORT TOPIC      # seconds until 50 members have all partitions
    compare.py medians FILE                   # lines "FIGURE SERVER VALUE"; prints JSON lines with ratios to Strandline
"""

import json
import statistics
import sys
import threading
import time
from collections import defaultdict

from confluent_kafka import Consumer, Producer, TopicPartition

RECORDS_A_SECOND = 1000
SECONDS = 15
WARM_UP_SECONDS = 3
MEMBERS = 50
PATIENCE_SECONDS = 120


def end_to_end(address, topic):
    latencies = []
    total = RECORDS_A_SECOND * SECONDS
    consumer = Consumer({"bootstrap.servers": address, "group.id": "paced", "enable.auto.commit": False, "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(topic, 0, 0)])

    def consume():
        deadline = time.monotonic() + SECONDS + PATIENCE_SECONDS
        while len(latencies) < total:
            if time.monotonic() > deadline:
                sys.exit(f"{len(latencies)} of {total} records came in time")
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                sys.exit(str(message.error()))
            latencies.append(time.monotonic() - float(message.value()[:24]))

    consuming = threading.Thread(target=consume)
    consuming.start()
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0})
    began = time.monotonic()
    for number in range(total):
        wait = began + number / RECORDS_A_SECOND - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        producer.produce(topic, f"{time.monotonic():<24.9f}".encode() + b"x" * 1000)
        producer.poll(0)
    producer.flush(PATIENCE_SECONDS)
    consuming.join()
    measured = sorted(latencies[RECORDS_A_SECOND * WARM_UP_SECONDS :])
    print(round(measured[int(len(measured) * 0.99)] * 1000, 2))


def rebalance(address, topic):
    assigned = [0] * MEMBERS
    done = threading.Event()

    def member(number):
        def on_assign(_consumer, partitions):
            assigned[number] = len(partitions)

        consumer = Consumer({"bootstrap.servers": address, "group.id": "joined", "session.timeout.ms": 30000})
        consumer.subscribe([topic], on_assign=on_assign, on_revoke=lambda _consumer, _partitions: assigned.__setitem__(number, 0))
        while not done.is_set():
            consumer.poll(0.1)
        consumer.close()

    began = time.monotonic()
    members = [threading.Thread(target=member, args=(number,)) for number in range(MEMBERS)]
    for each in members:
        each.start()
    while assigned != [1] * MEMBERS:
        if time.monotonic() > began + PATIENCE_SECONDS:
            done.set()
            sys.exit(f"only {sum(assigned)} of {MEMBERS} partitions are assigned")
        time.sleep(0.01)
    print(round(time.monotonic() - began, 2))
    done.set()
    for each in members:
        each.join()


def medians(path):
    figures = defaultdict(lambda: defaultdict(list))
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            figure, server, value = line.split()
            figures[figure][server].append(float(value))
    for figure, servers in figures.items():
        median = {server: statistics.median(values) for server, values in servers.items()}
        ratios = {f"over_{server}": round(median["strandline"] / value, 2) for server, value in median.items() if server != "strandline" and value}
        print(json.dumps({"figure": figure, **median, **ratios, "rounds": len(servers["strandline"])}))


if __name__ == "__main__":
    {"end_to_end": end_to_end, "rebalance": rebalance, "medians": medians}[sys.argv[1]](*sys.argv[2:])
