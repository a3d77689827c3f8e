"""Produces numbers to a topic until SIGTERM, and notes each that was acknowledged in a file: BOOTSTRAP TOPIC FILE.

It is idempotent, and goes on when the server comes back at its address.
"""

import signal
import sys

from confluent_kafka import Producer

AT_ONCE = 200
FLUSH_SECONDS = 30


def main(bootstrap, topic, path):
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "reconnect.backoff.max.ms": 500,
        }
    )
    with open(path, "w", buffering=1) as acknowledged:

        def delivered(error, message):
            if not error:
                acknowledged.write(message.value().decode() + "\n")

        number = 0
        while not stopped:
            if len(producer) < AT_ONCE:
                producer.produce(topic, f"{number:08}", partition=0, on_delivery=delivered)
                number += 1
                producer.poll(0)
            else:
                producer.poll(0.05)
        producer.flush(FLUSH_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
