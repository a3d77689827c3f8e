"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def configured(session):
    return session.create("configured", retention_ms="1000000", cleanup_policy="compact")


def describe(session):
    topic = configured(session)

    def step(name, kind, resource, keys, version=4, **fields):
        wanted = [{"resource_type": kind, "resource_name": resource, "configuration_keys": keys}]
        fields = {"include_synonyms": True, **fields}
        return session.step(f"DescribeConfigs: {name}", "DescribeConfigs", version, resources=wanted, **fields)

    answer = session.raw(
        "DescribeConfigs", 4, resources=[{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}]
    )
    for entry in sorted(answer["results"][0]["configs"], key=lambda entry: entry["name"]):
        kept = {key: entry[key] for key in ("value", "read_only", "config_source", "is_sensitive", "config_type")}
        session.keep(f"DescribeConfigs: {entry['name']}", kept)
    for version in (1, 2, 3, 4):
        step(f"two keys in version {version}", TOPIC, topic, ["retention.ms", "cleanup.policy"], version)
    step("without synonyms", TOPIC, topic, ["retention.ms"], include_synonyms=False)
    step("with documentation", TOPIC, topic, ["cleanup.policy"], include_documentation=True)
    step("an unknown key", TOPIC, topic, ["no.such"])
    step("no keys", TOPIC, topic, [])
    step("an unknown topic", TOPIC, session.topic("absent"), None)
    step("an empty topic name", TOPIC, "", None)
    step("a bad topic name", TOPIC, "a b", None)
    step("an unknown broker", BROKER, "77", None)
    step("a broker that is no number", BROKER, "x", None)
    step("a broker's key", BROKER, str(session.node), ["num.partitions"])
    step("all brokers' keys", BROKER, "", ["num.partitions"])
    step("resource type 0", 0, "x", None)
    step("resource type 99", 99, "x", None)


def incremental(session):
    topic = configured(session)

    def step(name, *entries, resource=topic, kind=TOPIC, validate_only=False):
        configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in entries]
        wanted = [{"resource_type": kind, "resource_name": resource, "configs": configs}]
        session.step(
            f"IncrementalAlterConfigs: {name}",
            "IncrementalAlterConfigs",
            1,
            resources=wanted,
            validate_only=validate_only,
        )
        look(session, f"after {name}", topic)

    step("set", ("retention.ms", SET, "5000"))
    step("only checked", ("retention.ms", SET, "7000"), validate_only=True)
    step("append to a list", ("cleanup.policy", APPEND, "delete"))
    step("append what is there", ("cleanup.policy", APPEND, "delete"))
    step("subtract from a list", ("cleanup.policy", SUBTRACT, "compact"))
    step("append to what is no list", ("retention.ms", APPEND, "1"))
    step("delete", ("retention.ms", DELETE, None))
    step("delete what is not set", ("retention.bytes", DELETE, None))
    step("an unknown key", ("no.such", SET, "1"))
    step("a bad value", ("retention.ms", SET, "soon"))
    step("a null value", ("retention.ms", SET, None))
    step("one good and one bad", ("retention.ms", SET, "9000"), ("segment.bytes", SET, "x"))
    step("a key twice", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    step("operation 9", ("retention.ms", 9, "1"))
    step("nothing")
    step("an unknown topic", ("retention.ms", SET, "1"), resource=session.topic("absent"))
    step("an unknown broker", ("num.io.threads", SET, "1"), resource="77", kind=BROKER)
    step("resource type 99", ("retention.ms", SET, "1"), kind=99)


def whole(session):
    topic = configured(session)

    def step(name, configs, resource=topic, validate_only=False):
        entries = [{"name": key, "value": value} for key, value in configs.items()]
        wanted = [{"resource_type": TOPIC, "resource_name": resource, "configs": entries}]
        session.step(f"AlterConfigs: {name}", "AlterConfigs", 2, resources=wanted, validate_only=validate_only)
        look(session, f"after AlterConfigs {name}", topic)

    step("replaces all", {"retention.bytes": "1000"})
    step("only checked", {"retention.bytes": "2000"}, validate_only=True)
    step("an unknown key", {"no.such": "1"})
    step("a bad value", {"retention.ms": "soon"})
    step("an unknown topic", {"retention.ms": "1"}, resource=session.topic("absent"))
    step("nothing", {})


def look(session, name, topic):
    """What is set on the topic itself."""
    session.settle()
    keys = ["retention.ms", "retention.bytes", "cleanup.policy", "segment.bytes"]
    wanted = [{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": keys}]
    entries = session.raw("DescribeConfigs", 4, resources=wanted)["results"][0]["configs"]
    session.keep(name, {entry["name"]: entry["value"] for entry in entries if entry["config_source"] == 1})
