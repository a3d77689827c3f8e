"""Says whether a trace of the server's system calls keeps the order that durability needs:
TRACE DATA MARKERS, with the trace of strace -f -y, the data directory, and how many records were produced.

Each record has a key of its own, marker(0) and so on. Of each object that gets a name:

- all its bytes are written, then the file is synced, then it is linked to its name, then the
  directory of that name is synced, and so is the parent of each directory that was made for it.

Of each acknowledgement (the response on the socket that the request with the marker came from):

- the WAL object in which the marker was written, and those before it, were durable before it began.

Of each segment and page: nothing that names it was written before it was durable. Of each WAL object that is
deleted: a checkpoint at or after it was durable before.
"""

import ast
import collections
import dataclasses
import os
import re
import sys

LINE = re.compile(r"^(\d+) +(.*)$")
CALL = re.compile(r"^(\w+)\((.*)\) += (-?\d+|\?)(.*)$")
DESCRIPTOR = re.compile(r"^-?\d+<([^>]*)>")
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
WAL = re.compile(r"^shards/(\d+)/wal/(\d+)/\d+/(\d+)$")
CHECKPOINT = re.compile(r"^shards/(\d+)/checkpoints/(\d+)-(\d+)$")
SEGMENT = re.compile(r"^shards/\d+/data/(\w{26})\.seg$")
PAGE = re.compile(r"^shards/\d+/pages/(\w{26})$")
ID_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
WRITES = {"write", "pwrite64", "writev"}
SENDS = {"write", "writev", "sendto", "sendmsg"}
RECEIVES = {"read", "readv", "recvfrom", "recvmsg"}
SYNCS = {"fsync", "fdatasync"}
PRODUCE = 0
# An object of more than this is large.
LARGE_BYTES = 4 << 20


def marker(number):
    return f"marker-{number:06}"


class Violation(Exception):
    """The order is not kept, or the trace does not show what it has to."""


@dataclasses.dataclass
class Call:
    """A system call: the lines at which it began and ended. What began after another ended came after it."""

    name: str
    arguments: str
    result: int
    begin: int
    end: int

    def path(self):
        """What its first argument, a descriptor, is open on."""
        found = DESCRIPTOR.match(self.arguments)
        return found.group(1) if found else ""

    def texts(self):
        """Its arguments in quotes, as bytes; long ones are cut in the trace."""
        return [ast.literal_eval(f'b"{text}"') for text in QUOTED.findall(self.arguments)]

    def bytes(self):
        return b"".join(self.texts())


@dataclasses.dataclass
class Object:
    """An object that got a name: its length, the number of its writes and the line of the first, its content as
    far as the trace has it, and the line from which on it is durable."""

    key: str
    length: int
    writes: int
    written: int
    content: bytes
    durable: int

    def place(self, pattern):
        """The shard and the place in its log."""
        found = pattern.match(self.key)
        return tuple(int(group) for group in found.groups()) if found else None


def calls(lines):
    """The calls of a trace that ended, in the order in which they began."""
    unfinished, found = {}, []
    for number, line in enumerate(lines):
        parts = LINE.match(line)
        if not parts:
            raise Violation(f"line {number + 1} is not strace's: {line[:80]}")
        thread, text = parts.groups()
        begin = number
        if text.endswith("<unfinished ...>"):
            unfinished[thread] = (number, text.removesuffix("<unfinished ...>"))
            continue
        if text.startswith("<... "):
            begin, front = unfinished.pop(thread)
            text = front + text.split(" resumed>", 1)[1]
        call = CALL.match(text)
        if call and call.group(3) != "?":
            found.append(Call(call.group(1), call.group(2), int(call.group(3)), begin, number))
    return sorted(found, key=lambda call: call.begin)


class Trace:
    def __init__(self, lines, data):
        self.data = data
        self.calls = calls(lines)
        self.by_path = collections.defaultdict(list)
        for call in self.calls:
            if call.name in WRITES | SYNCS:
                self.by_path[call.path()].append(call)
        self.made = {}
        for call in self.calls:
            if call.name == "mkdir" and call.result == 0:
                self.made[call.texts()[0].decode()] = call
        self.objects = [self.published(call) for call in self.calls if self.is_publication(call)]

    def key(self, path):
        """The key below the data directory; empty for what is not below it."""
        return path.removeprefix(self.data + "/") if path.startswith(self.data + "/") else ""

    def is_publication(self, call):
        if call.name not in ("link", "linkat", "rename", "renameat", "renameat2") or call.result != 0:
            return False
        # The bytes that are held back for a full disk are no object.
        return self.key(call.texts()[1].decode()) not in ("", ".reserve")

    def published(self, link):
        staged, target = (text.decode() for text in link.texts())
        key, on_file = self.key(target), self.by_path[staged]
        writes = [call for call in on_file if call.name in WRITES]
        if not writes:
            raise Violation(f"{key}: nothing was written before it got its name")
        last = max(call.end for call in writes)
        if last > link.begin:
            raise Violation(f"{key}: written after it got its name")
        if not any(call.name in SYNCS and last < call.begin and call.end < link.begin for call in on_file):
            raise Violation(f"{key}: got its name before its bytes were synced")
        durable = self.directory_synced(os.path.dirname(target), link.end, key)
        for made in self.ancestors(target):
            durable = max(durable, self.directory_synced(os.path.dirname(made), self.made[made].end, key))
        content = b"".join(call.bytes() for call in writes)
        length = sum(call.result for call in writes)
        return Object(key, length, len(writes), writes[0].begin, content, durable)

    def directory_synced(self, directory, after, key):
        """The line at which the first sync of a directory ended that began after a line."""
        ends = [call.end for call in self.by_path[directory] if call.name in SYNCS and call.begin > after]
        if not ends:
            raise Violation(f"{key}: the directory {directory} was not synced")
        return min(ends)

    def ancestors(self, target):
        """The directories above a file that were made in this trace."""
        directory = os.path.dirname(target)
        while len(directory) > len(self.data):
            if directory in self.made:
                yield directory
            directory = os.path.dirname(directory)

    def check_syncs(self):
        for path, on_path in self.by_path.items():
            for call in on_path:
                if call.name in SYNCS and call.result != 0:
                    raise Violation(f"{path}: {call.name} failed, line {call.begin + 1}")

    def check_acknowledgements(self, markers):
        wal = [(each.place(WAL), each) for each in self.objects if each.place(WAL)]
        for number in range(markers):
            self.check_acknowledgement(marker(number).encode(), wal)

    def check_acknowledgement(self, key, wal):
        name = key.decode()
        request = next((call for call in self.calls if call.name in RECEIVES and is_produce(call, key)), None)
        if not request:
            raise Violation(f"{name}: no produce request in the trace")
        correlation = request.bytes()[4:8]
        acknowledged = next((call for call in self.calls if is_response(call, request, correlation)), None)
        if not acknowledged:
            raise Violation(f"{name}: no response in the trace")
        place = next((place for place, each in wal if key in each.content), None)
        if not place:
            raise Violation(f"{name}: in no object of the WAL")
        for other, each in wal:
            if other[:2] == place[:2] and other <= place and each.durable > acknowledged.begin:
                raise Violation(f"{name}: acknowledged before {each.key} was durable, line {acknowledged.begin + 1}")

    def check_references(self):
        """How many times a segment or page was named by a later object."""
        references = 0
        for each in self.objects:
            found = SEGMENT.match(each.key) or PAGE.match(each.key)
            named = id_bytes(found.group(1)) if found else None
            for other in self.objects if named else []:
                if other is each or named not in other.content:
                    continue
                references += 1
                if other.written < each.durable:
                    raise Violation(f"{other.key}: names {each.key} before that was durable, line {other.written + 1}")
        return references

    def check_deletions(self):
        checkpoints = [(each.place(CHECKPOINT), each.durable) for each in self.objects if each.place(CHECKPOINT)]
        deleted = 0
        for call in self.calls:
            if call.name not in ("unlink", "unlinkat") or call.result != 0:
                continue
            key = self.key(call.texts()[0].decode())
            found = WAL.match(key)
            if not found:
                continue
            deleted += 1
            shard, *place = (int(group) for group in found.groups())
            if not any(at[0] == shard and list(at[1:]) >= place and durable < call.begin for at, durable in checkpoints):
                raise Violation(f"{key}: deleted before a checkpoint after it was durable, line {call.begin + 1}")
        return deleted


def id_bytes(text):
    """An object id as it stands in other objects."""
    number = 0
    for digit in text:
        number = number * 32 + ID_DIGITS.index(digit.upper())
    return number.to_bytes(16, "big")


def is_produce(call, key):
    text = call.bytes()
    return key in text and int.from_bytes(text[:2], "big") == PRODUCE


def is_response(call, request, correlation):
    if call.name not in SENDS or call.begin < request.end or call.path() != request.path():
        return False
    return call.bytes()[4:8] == correlation


def check(lines, data, markers):
    """How many of what the trace shows."""
    trace = Trace(lines, data)
    trace.check_syncs()
    trace.check_acknowledgements(markers)
    references = trace.check_references()
    deleted = trace.check_deletions()
    wal = [each for each in trace.objects if each.place(WAL)]
    segments = [each for each in trace.objects if SEGMENT.match(each.key)]
    large = [each for each in wal if each.length > LARGE_BYTES]
    pieces = [each for each in segments if each.length > LARGE_BYTES and each.writes > 1]
    return {
        "acknowledged records": markers,
        "objects of the WAL": len(wal),
        "large objects of the WAL": len(large),
        "segments": len(segments),
        "large segments in pieces": len(pieces),
        "checkpoints": sum(1 for each in trace.objects if each.place(CHECKPOINT)),
        "references to segments and pages": references,
        "deleted objects of the WAL": deleted,
    }


def main(path, data, markers):
    with open(path, errors="replace") as file:
        lines = file.read().splitlines()
    try:
        shown = check(lines, data, int(markers))
    except Violation as violation:
        print(f"FAILED the order of fsync: {violation}")
        sys.exit(1)
    missing = [what for what, count in shown.items() if count == 0]
    summary = ", ".join(f"{count} {what}" for what, count in shown.items())
    if missing:
        print(f"FAILED the order of fsync: the trace has no {', no '.join(missing)} ({summary})")
        sys.exit(1)
    print(f"ok the order of fsync: {summary}")


if __name__ == "__main__":
    main(*sys.argv[1:])
