"""Record batches of version 2 as bytes, also wrong ones, and what is in those that were fetched."""

import gzip
import struct

from crc32c import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
CRC_FROM = 21


def varint(number):
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(value):
    return varint(-1) if value is None else varint(len(value)) + value


def record(delta, time_delta, key, value, headers=()):
    body = b"\0" + varint(time_delta) + varint(delta) + field(key) + field(value) + varint(len(headers))
    for name, content in headers:
        body += field(name) + field(content)
    return varint(len(body)) + body


def batch(times, keys=None, value=b"v", **wrong):
    """A batch with one record per time. `wrong` replaces a header field or the deltas of the records."""
    base_time = times[0] if times else -1
    deltas = wrong.get("deltas", range(len(times)))
    keys = keys or [b"k"] * len(times)
    records = b"".join(record(delta, time - base_time, key, value) for delta, time, key in zip(deltas, times, keys))
    attributes = wrong.get("attributes", 0)
    if attributes & 7 == 1:
        records = gzip.compress(records)
    return assemble(records, attributes, base_time, max(times, default=-1), len(times), wrong)


def assemble(records, attributes, base_time, max_time, count, wrong):
    body = struct.pack(
        ">hiqqqhii",
        attributes,
        wrong.get("last_delta", count - 1),
        base_time,
        wrong.get("max_time", max_time),
        wrong.get("producer_id", -1),
        wrong.get("epoch", -1),
        wrong.get("sequence", -1),
        wrong.get("count", count),
    )
    body += records
    crc = wrong.get("crc", crc32c(body))
    length = 4 + 1 + 4 + len(body)
    return struct.pack(">qiibI", wrong.get("base_offset", 0), length, -1, wrong.get("magic", 2), crc) + body


def summary(data):
    """What fetched bytes hold, batch by batch; a batch that was cut shows as what is left of it."""
    if data is None:
        return None
    found = []
    while data:
        if len(data) < HEADER.size:
            found.append({"cut": len(data)})
            break
        base, length, _, magic, _, attributes, last, _, _, _, _, _, count = HEADER.unpack_from(data)
        if len(data) < 12 + length:
            found.append({"cut": len(data)})
            break
        found.append(
            {
                "base_offset": base,
                "last_offset": base + last,
                "records": count,
                "magic": magic,
                "codec": CODECS[attributes & 7],
                "control": bool(attributes & 32),
            }
        )
        data = data[12 + length :]
    return found
