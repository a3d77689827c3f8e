"""Real data against answers that were computed without this project: PHASE BOOTSTRAP PG DATA.

PHASE is "load" (produce, then check), or "check" (the same checks, after a kill and a restart).
"""

import datetime
import gzip
import json
import re
import sys
from pathlib import Path

from checks import Checks, connect, create_topic, offset_at, offset_of_greatest_time, one, produce, same

CODECS = ["gzip", "snappy", "lz4", "zstd"]
NONE = -1
END = -1


def main(phase, bootstrap, pg, data):
    expected = json.loads((data / "expected.json").read_text())
    checks = Checks()
    if phase == "load":
        load(checks, bootstrap, data)
    with connect(pg) as connection:
        for topic in ["wikiticker", *(f"wikiticker_{codec}" for codec in CODECS)]:
            seeks(checks, bootstrap, connection, topic, expected["wikiticker"])
            wikiticker(checks, connection, topic, expected["wikiticker"]["sql"])
        for topic, key in [
            ("taxi", "taxi_2019-01"),
            ("github", "github_2021"),
            ("nginx", "nginxplus"),
            ("apache", "apache_access"),
        ]:
            seeks(checks, bootstrap, connection, topic, expected[key])
        taxi(checks, connection, expected["taxi_2019-01"]["sql"])
        github(checks, connection, expected["github_2021"]["sql"])
        nginx(checks, connection, expected["nginxplus"]["sql"])
        apache(checks, connection, expected["apache_access"]["sql"])
    checks.end()


def epoch_ms(time):
    return round(time.timestamp() * 1000)


def rfc3339(text):
    return epoch_ms(datetime.datetime.fromisoformat(text))


def json_lines(lines, timestamp):
    return [(timestamp(json.loads(line)), line) for line in lines]


def wikiticker_records(data):
    with gzip.open(data / "wikiticker/wikiticker-2015-09-12-sampled.json.gz", "rt") as file:
        return json_lines(file.read().splitlines(), lambda event: rfc3339(event["time"]))


def taxi_records(data):
    lines = (data / "taxi/yellow_tripdata_sample_2019-01.csv").read_text().splitlines()[1:]
    utc = datetime.timezone.utc
    pickup = lambda line: datetime.datetime.fromisoformat(line.split(",")[1]).replace(tzinfo=utc)
    return [(epoch_ms(pickup(line)), line) for line in lines]


def github_records(data):
    lines = (data / "gharchive/pinot-github-events-2021-07-21.ndjson").read_text().splitlines()
    return json_lines(lines, lambda event: rfc3339(event["created_at"]))


def nginx_records(data):
    lines = (data / "nginx/nginxplus_json_logs.ndjson").read_text().splitlines()
    return json_lines(lines, lambda event: event["timestamp"])


def apache_records(data):
    records = []
    for line in (data / "apache/apache_logs.log").read_text().splitlines():
        text = re.search(r"\[([^\]]+)\]", line).group(1)
        records.append((epoch_ms(datetime.datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z")), line))
    return records


def load(checks, bootstrap, data):
    edits = wikiticker_records(data)
    topics = {"wikiticker": (edits, "none")}
    topics |= {f"wikiticker_{codec}": (edits, codec) for codec in CODECS}
    topics |= {
        "taxi": (taxi_records(data), "lz4"),
        "github": (github_records(data), "zstd"),
        "nginx": (nginx_records(data), "snappy"),
        "apache": (apache_records(data), "gzip"),
    }
    for topic, (records, codec) in topics.items():
        with checks.check(f"{topic} is produced ({len(records)} records, {codec})"):
            create_topic(bootstrap, topic)
            produce(bootstrap, topic, records, codec)


def seeks(checks, bootstrap, connection, topic, expected):
    with checks.check(f"{topic} has all its rows"):
        same(one(connection, f"SELECT count(*) FROM {topic}"), expected["rows"])
        bounds = connection.execute(f"SELECT min(ts), max(ts) FROM {topic}").fetchone()
        same([epoch_ms(bound) for bound in bounds], [expected["min_ts_ms"], expected["max_ts_ms"]])
    with checks.check(f"{topic} has its greatest time at the first record that has it"):
        same(offset_of_greatest_time(bootstrap, topic), expected["max_ts_first_offset"])
    for lookup in expected["list_offsets_by_ts"]:
        timestamp, offset = lookup["ts_ms"], lookup["offset"]
        with checks.check(f"{topic} seek to {timestamp}"):
            same(offset_at(bootstrap, topic, timestamp), END if offset == NONE else offset)
            after = datetime.datetime.fromtimestamp(timestamp / 1000, datetime.timezone.utc)
            statement = f"SELECT min(_offset), count(*) FROM {topic} WHERE ts >= %s"
            found = connection.execute(statement, (after,)).fetchone()
            same(found, (None if offset == NONE else offset, lookup["rows_with_ts_ge"]))


def wikiticker(checks, connection, topic, expected):
    with checks.check(f"{topic} counts and sums"):
        hour = f"SELECT count(*) FROM {topic} WHERE ts >= '2015-09-12 12:00' AND ts < '2015-09-12 13:00'"
        same(one(connection, hour), expected["rows 12:00<=time<13:00 on 2015-09-12"])
        same(one(connection, f"SELECT sum(added) FROM {topic}"), expected["sum(added)"])
        same(one(connection, f"SELECT sum(deleted) FROM {topic}"), expected["sum(deleted)"])
        robots = f"""SELECT count(*) FROM {topic} WHERE "isRobot" """
        same(one(connection, robots), expected["isRobot=true"])
        nowhere = f"""SELECT count(*) FROM {topic} WHERE "cityName" IS NULL"""
        same(one(connection, nowhere), expected["cityName null"])
    with checks.check(f"{topic} top channels"):
        statement = f"SELECT channel, count(*) FROM {topic} GROUP BY channel ORDER BY 2 DESC LIMIT 5"
        same([list(row) for row in connection.execute(statement)], expected["top5 channel"])
    with checks.check(f"{topic} the first query of the tour"):
        statement = f"""SELECT ts, _offset, channel, added FROM {topic}
                        WHERE ts >= '2015-09-12 12:00' ORDER BY ts LIMIT 10"""
        rows = connection.execute(statement).fetchall()
        same(len(rows), 10)
        same([row[0] for row in rows], sorted(row[0] for row in rows))


def taxi(checks, connection, expected):
    day = "ts >= '2019-01-15' AND ts < '2019-01-16'"
    field = lambda position: f"split_part(_value, ',', {position})"
    with checks.check("taxi rows of a day, read as text"):
        same(one(connection, f"SELECT count(*) FROM taxi WHERE {day}"), expected["rows on day 15"])
        cents = f"SELECT sum(round(CAST({field(17)} AS numeric(12, 2)) * 100)) FROM taxi WHERE {day}"
        same(int(one(connection, cents)), expected["sum(total_amount) cents day 15"])
        empty = f"SELECT count(*) FROM taxi WHERE {field(18)} = ''"
        same(one(connection, empty), expected["congestion_surcharge empty"])
        negative = f"SELECT count(*) FROM taxi WHERE {field(17)} LIKE '-%'"
        same(one(connection, negative), expected["negative total_amount"])


def github(checks, connection, expected):
    with checks.check("github events by type"):
        rows = connection.execute("SELECT type, count(*) FROM github GROUP BY type ORDER BY 2 DESC, 1")
        found = sorted([list(row) for row in rows], key=lambda row: (-row[1], row[0]))
        same(found, sorted(expected["by type"], key=lambda row: (-row[1], row[0])))
    with checks.check("github nested ids"):
        statement = "SELECT count(DISTINCT actor ->> 'id') FROM github"
        same(one(connection, statement), expected["distinct actor.id"])
        same(one(connection, "SELECT count(*) FROM github WHERE org IS NULL"), expected["org missing"])


def nginx(checks, connection, expected):
    for (name, expression), key in zip(
        [
            ("a counter", "max(CAST(requests ->> 'total' AS bigint))"),
            (
                "keys with dots and leading digits",
                "sum(CAST(server_zones -> 'hg.nginx.org' -> 'responses' ->> '4xx' AS bigint))",
            ),
            ("a counter beyond 2^31", "max(CAST(caches -> 'http_cache' -> 'miss' ->> 'bytes' AS bigint))"),
        ],
        expected,
    ):
        with checks.check(f"nginx {name}"):
            same(int(one(connection, f"SELECT {expression} FROM nginx")), expected[key])


def apache(checks, connection, expected):
    with checks.check("apache log lines by status"):
        status = "split_part(split_part(_value, '\" ', 2), ' ', 1)"
        rows = connection.execute(f"SELECT {status}, count(*) FROM apache GROUP BY 1")
        found = sorted([list(row) for row in rows], key=lambda row: (-row[1], row[0]))
        same(found, sorted(expected["by status"], key=lambda row: (-row[1], row[0])))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
