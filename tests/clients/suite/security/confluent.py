"""confluent-kafka with right, wrong and no credentials: PLAIN_PORT TLS_PORT CERTIFICATE_PORT DIRECTORY.
Prints one line per check and ends with 1 if one failed."""

import sys
import uuid

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

TIMEOUT = 60
# How long a client that is not let in is waited for.
REFUSED_TIMEOUT = 10

plain, tls, certificate, directory = sys.argv[1:]
failed = False


def sasl(bootstrap, mechanism, password, protocol="sasl_plaintext"):
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": "admin",
        "sasl.password": password,
        "ssl.ca.location": f"{directory}/ca.pem",
    }


def certified(with_certificate):
    settings = {"bootstrap.servers": certificate, "security.protocol": "ssl", "ssl.ca.location": f"{directory}/ca.pem"}
    if with_certificate:
        settings |= {"ssl.certificate.location": f"{directory}/client.pem", "ssl.key.location": f"{directory}/client.key"}
    return settings


def check(name, body, *arguments):
    global failed
    try:
        body(*arguments)
        print(f"passed\tconfluent-kafka {name}", flush=True)
    except Exception as error:  # a check may fail in any way; all others still run
        failed = True
        print(f"failed\tconfluent-kafka {name}\t{type(error).__name__}: {error}", flush=True)


def round_trip(settings):
    topic = f"confluent-{uuid.uuid4()}"
    errors = []
    producer = Producer(settings)
    for step in range(10):
        producer.produce(topic, f"v{step}", on_delivery=lambda error, _: errors.append(error) if error else None)
    assert producer.flush(TIMEOUT) == 0 and not errors, errors
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values = []
    while len(values) < 10:
        message = consumer.poll(TIMEOUT)
        assert message is not None, f"{len(values)} of 10 messages came"
        if not message.error():
            values.append(message.value().decode())
    consumer.close()
    assert values == [f"v{step}" for step in range(10)], values


def refused(settings, code):
    errors = []
    admin = AdminClient(settings | {"error_cb": lambda error: errors.append(error.code())})
    try:
        admin.list_topics(timeout=REFUSED_TIMEOUT)
    except Exception:
        admin.poll(0)
        assert code is None or code in errors, errors
        return
    raise AssertionError("it was let in")


for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
    check(f"{mechanism}", round_trip, sasl(plain, mechanism, "pencil"))
    check(f"{mechanism} over TLS", round_trip, sasl(tls, mechanism, "pencil", "sasl_ssl"))
    check(f"{mechanism} with a wrong password", refused, sasl(plain, mechanism, "pen"), KafkaError._AUTHENTICATION)
check("certificate", round_trip, certified(True))
check("no certificate", refused, certified(False), None)
check("no credentials", refused, {"bootstrap.servers": plain}, None)
check("no TLS", refused, sasl(tls, "PLAIN", "pencil"), None)
check("TLS where there is none", refused, sasl(plain, "PLAIN", "pencil", "sasl_ssl"), None)
sys.exit(1 if failed else 0)
