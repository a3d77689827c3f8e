"""SASL: what is answered before, while and after a client proves who it is, and users with their credentials."""

from kafka.net.sasl.scram import ScramClient
from scenarios.principals import ITERATIONS, PASSWORD, SALT, SCRAM_SHA_256, connect_as, create_users
from wire import MECHANISM, Closed, Connection, Refused, Silent

ALL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
A_REQUEST = ("DescribeCluster", 0, {"include_cluster_authorized_operations": False})


def run(session):
    user, password = session.credentials
    before(session)
    session.keep("SCRAM: right", exchange(session, user, password))
    session.keep("SCRAM: wrong password", exchange(session, user, "wrong"))
    session.keep("SCRAM: unknown user", exchange(session, session.topic("nobody"), password))
    for what, token in {
        "right": f"\0{user}\0{password}",
        "right, for itself": f"{user}\0{user}\0{password}",
        "for another": f"bob\0{user}\0{password}",
        "wrong password": f"\0{user}\0wrong",
        "unknown user": f"\0{session.topic('nobody')}\0{password}",
        "no password": f"\0{user}\0",
        "no user": f"\0\0{password}",
        "two parts": f"{user}\0{password}",
        "four parts": f"\0{user}\0{password}\0",
        "nothing": "",
    }.items():
        session.keep(f"PLAIN: {what}", told(session, "PLAIN", token.encode()))
    for what, token in {
        "nothing": b"",
        "no message": b"hello",
        "channel binding": b"p=tls-unique,,n=a,r=abc",
        "for another": b"n,a=bob,n=admin,r=abc",
        "no nonce": b"n,,n=admin,r=",
        "an extension": b"n,,m=x,n=admin,r=abc",
    }.items():
        session.keep(f"SCRAM, the first token: {what}", told(session, MECHANISM, token))
    after(session)
    credentials(session)


def attempt(connection, api, version, fields):
    """The error of an answer, with the mechanisms that it names; or the word for there being none."""
    try:
        answer = connection.call(api, version, fields)
    except (Closed, Silent) as error:
        return type(error).__name__.lower()
    names = [name for name in answer.get("mechanisms", []) if name in ALL_MECHANISMS]
    return " ".join([str(answer["error_code"]), *sorted(names)])


def before(session):
    for what, api, version, fields in (
        ("ApiVersions 3", "ApiVersions", 3, {"client_software_name": "a", "client_software_version": "1"}),
        ("a request", *A_REQUEST),
        ("Produce", "Produce", 9, {"acks": -1, "timeout_ms": 1000, "topic_data": []}),
        ("SaslAuthenticate", "SaslAuthenticate", 2, {"auth_bytes": b"\0a\0b"}),
        ("a handshake", "SaslHandshake", 1, {"mechanism": MECHANISM}),
        ("a handshake for a mechanism that is not there", "SaslHandshake", 1, {"mechanism": "GSSAPI"}),
        ("a handshake in small letters", "SaslHandshake", 1, {"mechanism": "plain"}),
    ):
        connection = Connection(session.address)
        session.keep(f"before a login: {what}", attempt(connection, api, version, fields))
        connection.close()
    connection = Connection(session.address)
    connection.call("SaslHandshake", 1, {"mechanism": MECHANISM})
    session.keep("between: a request", attempt(connection, *A_REQUEST))
    connection = Connection(session.address)
    connection.call("SaslHandshake", 1, {"mechanism": MECHANISM})
    session.keep("between: another handshake", attempt(connection, "SaslHandshake", 1, {"mechanism": "PLAIN"}))
    connection.close()


def told(session, mechanism, token):
    """What is answered to a first token, and whether the connection goes on."""
    connection = Connection(session.address)
    connection.call("SaslHandshake", 1, {"mechanism": mechanism})
    answer = attempt(connection, "SaslAuthenticate", 2, {"auth_bytes": token})
    then = attempt(connection, *A_REQUEST)
    connection.close()
    return f"{answer}, then {then}"


def exchange(session, user, password):
    """How far a login comes."""
    scram = ScramClient(user, password, MECHANISM)
    connection = Connection(session.address)
    connection.call("SaslHandshake", 1, {"mechanism": MECHANISM})
    try:
        scram.process_server_first_message(connection.prove(scram.first_message()))
    except Refused:
        return "refused at the first token"
    try:
        scram.process_server_final_message(connection.prove(scram.final_message()))
    except Refused:
        return "refused at the last token"
    finally:
        connection.close()
    return "let in"


def after(session):
    handshake = {"mechanism": MECHANISM}
    connection = session.connect()
    session.keep("after a login: a handshake", attempt(connection, "SaslHandshake", 1, handshake))
    connection.close()
    connection = session.connect()
    session.keep("after a login: a token", attempt(connection, "SaslAuthenticate", 2, {"auth_bytes": b"\0a\0b"}))
    connection.close()


def credentials(session):
    name = session.topic("user")
    good = {
        "name": name,
        "mechanism": SCRAM_SHA_256,
        "iterations": ITERATIONS,
        "salt": SALT,
        "salted_password": b"p" * 32,
    }

    def alter(what, *upsertions, deletions=()):
        fields = {"deletions": list(deletions), "upsertions": list(upsertions)}
        answer = session.raw("AlterUserScramCredentials", 0, **fields)
        answer["results"].sort(key=lambda result: result["user"])
        session.keep(f"AlterUserScramCredentials: {what}", session.plain(answer))

    for what, changed in {
        "good": {},
        "4095 iterations": {"iterations": 4095},
        "16384 iterations": {"iterations": 16384},
        "16385 iterations": {"iterations": 16385},
        "negative iterations": {"iterations": -1},
        "no mechanism": {"mechanism": 0},
        "mechanism 3": {"mechanism": 3},
        "no name": {"name": ""},
    }.items():
        alter(what, good | changed)
    gone = {"name": name, "mechanism": SCRAM_SHA_256}
    alter("twice", good, good)
    alter("put and deleted", good, deletions=[gone])
    alter("a user that is not there is deleted", deletions=[{**gone, "name": session.topic("nobody")}])
    alter("another mechanism is deleted", deletions=[{**gone, "mechanism": 2}])
    alter("an unknown mechanism is deleted", deletions=[{**gone, "mechanism": 0}])
    alter("one good and one bad", good, good | {"name": session.topic("other"), "iterations": 1})
    alter("nothing")
    session.settle()
    for what, users in {"one": [name], "not there": [session.topic("nobody")], "twice": [name, name]}.items():
        wanted = [{"name": each} for each in users]
        session.step(f"DescribeUserScramCredentials: {what}", "DescribeUserScramCredentials", 0, users=wanted)
    alter("deleted", deletions=[gone])
    removed(session)


def removed(session):
    """A user that is deleted while it is connected."""
    name = session.topic("removed")
    create_users(session, [name])
    connection = connect_as(session, name)
    session.keep("a request of a user", attempt(connection, *A_REQUEST))
    session.raw("AlterUserScramCredentials", 0, deletions=[{"name": name, "mechanism": SCRAM_SHA_256}], upsertions=[])
    session.settle()
    session.keep("its next after it was deleted", attempt(connection, *A_REQUEST))
    connection.close()
    session.keep("its login after it was deleted", exchange(session, name, PASSWORD))
