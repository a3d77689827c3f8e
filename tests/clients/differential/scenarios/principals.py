"""Users, and rules on what they may do. The session's own user has to be a super user."""

import hashlib
import time

from wire import Connection, Refused

PASSWORD = "pencil"
SALT, ITERATIONS = b"0123456789abcdef", 4096
SCRAM_SHA_256 = 1
TRIES = 200

KINDS = {"topic": 2, "group": 3, "cluster": 4, "transactional-id": 5}
OPERATIONS = {
    "All": 2,
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "ClusterAction": 9,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
    "IdempotentWrite": 12,
}
DENY, ALLOW = 2, 3
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
CLUSTER = "kafka-cluster"
ANY_HOST = "*"
EVERY_RULE = {
    "resource_type_filter": ANY,
    "resource_name_filter": None,
    "pattern_type_filter": ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}


def rule(principal, kind, name, operation, **more):
    return {
        "resource_type": KINDS[kind],
        "resource_name": name,
        "resource_pattern_type": LITERAL,
        "principal": f"User:{principal}",
        "host": ANY_HOST,
        "operation": OPERATIONS[operation],
        "permission_type": ALLOW,
        **more,
    }


def create_users(session, names):
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), SALT, ITERATIONS)
    credential = {"mechanism": SCRAM_SHA_256, "iterations": ITERATIONS, "salt": SALT, "salted_password": salted}
    wanted = [{"name": name, **credential} for name in names]
    answer = session.raw("AlterUserScramCredentials", 0, deletions=[], upsertions=wanted)
    assert all(each["error_code"] == 0 for each in answer["results"]), answer


def create_rules(session, rules):
    """Kafka's broker looks at rules some time after its controller has taken them."""
    answer = session.raw("CreateAcls", 3, creations=rules)
    assert all(each["error_code"] == 0 for each in answer["results"]), answer
    for _ in range(TRIES):
        found = session.raw("DescribeAcls", 3, **EVERY_RULE)["resources"]
        if sum(len(resource["acls"]) for resource in found) >= len(rules):
            return
        time.sleep(0.05)
    raise AssertionError("the rules do not come")


def delete_rules(session):
    answer = session.raw("DeleteAcls", 3, filters=[EVERY_RULE])
    assert answer["filter_results"][0]["error_code"] == 0, answer
    session.settle()


def connect_as(session, name, source=None):
    """A connection of that user. Kafka's broker hears of users some time after its controller has."""
    for _ in range(TRIES):
        connection = Connection(session.address, source)
        try:
            connection.login(name, PASSWORD)
            return connection
        except Refused:
            connection.close()
            time.sleep(0.05)
    raise AssertionError(f"user {name} cannot log in")
