"""Requests and answers on one connection, by the schemas of kafka-python: dicts in, dicts out."""

import socket
import struct

import schemas
from kafka.net.sasl.scram import ScramClient
from kafka.protocol import admin, consumer, metadata, producer, sasl

BOUND_SECONDS = 15
PACKAGES = (admin, consumer, metadata, producer, sasl, schemas)
MECHANISM = "SCRAM-SHA-256"


class Closed(Exception):
    """The server closed the connection instead of answering."""


class Silent(Exception):
    """The server neither answered in time nor closed the connection."""


def api_class(name, kind):
    for package in PACKAGES:
        if hasattr(package, name + kind):
            return getattr(package, name + kind)
    raise KeyError(f"kafka-python has no {name}{kind}")


def build(cls, version, fields):
    """A message, or a part of one, from nested dicts; what is not given has its default."""
    values = {}
    schema = cls._struct.fields
    for name, value in fields.items():
        field = schema[name]
        if field.is_struct_array() and value is not None:
            value = [build(field.data_class, version, part) for part in value]
        elif field.is_struct() and value is not None:
            value = build(field.data_class, version, value)
        values[name] = value
    return cls(version=version, **values)


class Refused(Exception):
    """The server did not believe that a client is the user."""


class Connection:
    """source: the address that the server sees the client come from."""

    def __init__(self, address, source=None):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), BOUND_SECONDS, source and (source, 0))
        self.correlation_id = 0

    def login(self, user, password):
        scram = ScramClient(user, password, MECHANISM)
        self.call("SaslHandshake", 1, {"mechanism": MECHANISM})
        scram.process_server_first_message(self.prove(scram.first_message()))
        scram.process_server_final_message(self.prove(scram.final_message()))

    def prove(self, token):
        answer = self.call("SaslAuthenticate", 2, {"auth_bytes": token})
        if answer["error_code"]:
            raise Refused(answer["error_message"])
        return bytes(answer["auth_bytes"])

    def close(self):
        self.socket.close()

    def call(self, api, version, fields):
        """The answer as a dict; None where none is due (Produce with acks=0)."""
        if not self.send(api, version, fields):
            return None
        return self.receive(api, version)

    def send(self, api, version, fields):
        """Whether an answer is due."""
        request = build(api_class(api, "Request"), version, fields)
        self.correlation_id += 1
        request.with_header(correlation_id=self.correlation_id, client_id="differential")
        self.socket.sendall(request.encode(header=True, framed=True))
        return request.expect_response()

    def receive(self, api, version):
        frame = self.read_frame()
        return api_class(api, "Response").decode(frame, version=version, header=True).to_dict(json=False)

    def read_frame(self):
        (size,) = struct.unpack(">i", self.read(4))
        return self.read(size)

    def read(self, size):
        parts = []
        while size:
            try:
                part = self.socket.recv(size)
            except ConnectionResetError as error:
                raise Closed from error
            except TimeoutError as error:
                raise Silent(f"no answer within {BOUND_SECONDS} s") from error
            if not part:
                raise Closed
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
