"""The same scripted requests to Apache Kafka and to Strandline.

  main.py record KAFKA FIXTURES                      keeps Kafka's answers as FIXTURES/<scenario>.json
  main.py replay STRANDLINE FIXTURES [SCENARIO...]   asks Strandline the same and compares with what was kept
  main.py show ADDRESS SCENARIO                      prints the answers of one server

KAFKA, STRANDLINE and ADDRESS are HOST:PORT, or USER:PASSWORD@HOST:PORT of a server that asks who one is and that has an
authorizer, whose scenarios are other ones.

An answer that differs is a failure unless FIXTURES/differences.json has a pattern for its place with the reason. A pattern
that no answer needs is a failure as well, so that the list stays true; unless its reason begins with "to be fixed".
"""

import fnmatch
import json
import pathlib
import sys

from scenarios import SCENARIOS, WITH_USERS
from session import Session

# Kafka's brokers see a change of the metadata some time after the controller has answered.
KAFKA_SETTLE_SECONDS = 0.4


def scenarios_of(address):
    return WITH_USERS if "@" in address else SCENARIOS


def answers(address, scenario, settle_seconds=0):
    session = Session(address, scenario.replace("_", "-"), settle_seconds)
    try:
        scenarios_of(address)[scenario](session)
    except Exception as error:
        session.keep("the scenario goes on to its end", f"{type(error).__name__}: {error}"[:300])
    return session.steps


def record(address, fixtures):
    for scenario in scenarios_of(address):
        kept = answers(address, scenario, KAFKA_SETTLE_SECONDS)
        text = json.dumps(kept, indent=1, ensure_ascii=False)
        (fixtures / f"{scenario}.json").write_text(text + "\n")
        print(f"{scenario}: {len(kept)} answers")


def differences(place, expected, found):
    """(place, expected, found) for each leaf that is not the same."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in expected.keys() | found.keys():
            yield from differences(f"{place}/{key}", expected.get(key, "absent"), found.get(key, "absent"))
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, pair in enumerate(zip(expected, found)):
            yield from differences(f"{place}/{index}", *pair)
    elif expected != found:
        yield place, expected, found


def replay(address, fixtures, chosen):
    reasons = json.loads((fixtures / "differences.json").read_text())
    used, failed = set(), 0
    for scenario in chosen or scenarios_of(address):
        expected = json.loads((fixtures / f"{scenario}.json").read_text())
        found = json.loads(json.dumps(answers(address, scenario)))
        for step in {**expected, **found}:
            failed += compare(
                f"{scenario}/{step}", expected.get(step, "absent"), found.get(step, "absent"), reasons, used
            )
    for pattern in sorted(reasons.keys() - used) if not chosen else []:
        to_be_fixed = reasons[pattern].startswith("to be fixed")
        print(f"{'fixed' if to_be_fixed else 'FAILED'} differences.json: nothing differs at {pattern}")
        failed += not to_be_fixed
    return failed


def compare(place, expected, found, reasons, used):
    left = []
    for difference in sorted(differences(place, expected, found)):
        matching = [pattern for pattern in reasons if fnmatch.fnmatchcase(difference[0], pattern)]
        used.update(matching)
        if not matching:
            left.append(difference)
    for where, wanted, got in left:
        print(f"FAILED {where}: Kafka answers {json.dumps(wanted)[:300]}, here it is {json.dumps(got)[:300]}")
    if not left:
        print(f"ok {place}")
    return len(left)


def main(command, address, last, *chosen):
    if command == "show":
        print(json.dumps(answers(address, last), indent=1))
        return 0
    fixtures = pathlib.Path(last)
    if command == "record":
        record(address, fixtures)
        return 0
    return 1 if replay(address, fixtures, chosen) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
