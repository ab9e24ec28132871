"""The files that Kafka's tools take, and the shell lines around them: JSON, CSV and quoting by libraries, never by hand.

Sources: LeaderElectionCommand (--path-to-json-file), ReassignPartitionsCommand (--reassignment-json-file), ConsumerGroupCommand
(--reset-offsets --from-file: lines of topic,partition,offset), TransactionsCommand (abort --start-offset, KIP-664).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from shlex import quote

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")  # an apostrophe, too: so that taking one away gives back every name
SERVER = '--bootstrap-server "$BOOTSTRAP"'
_SCRIPT = """\
#!/bin/sh
# Written by an audit; read it before you run it. It stops at the first line that fails.
set -eu
: "${BOOTSTRAP:?set BOOTSTRAP to HOST:PORT of a broker, and CONFIG to a file for --command-config if the cluster asks for credentials}"
cd -- "$(dirname -- "$0")"
run() { tool=$1; shift; "$tool" --bootstrap-server "$BOOTSTRAP" ${CONFIG:+--command-config "$CONFIG"} "$@"; }
"""


def joined(brokers: Collection[int]) -> str:
    """The line that shows that these brokers' replicas are in the ISR, whatever others do."""
    named = ", ".join(map(str, sorted(brokers)))
    comment = f"after a while, a line that has {named} in `Replicas` has it in `Isr`, too"
    if len(brokers) > 1:
        comment = f"after a while, a line that has one of {named} in `Replicas` has it in `Isr`, too"
    return f"kafka-topics.sh {SERVER} --describe --under-replicated-partitions   # {comment}"


def election_json(partitions: Iterable[tuple[str, int]]) -> str:
    """Partitions to elect leaders of."""
    return _json({"partitions": [{"topic": topic, "partition": partition} for topic, partition in partitions]})


def reassignment_json(replicas: Mapping[tuple[str, int], Sequence[int]]) -> str:
    """The replicas that each partition is to have, the preferred leader first."""
    made = [{"topic": topic, "partition": partition, "replicas": list(brokers)} for (topic, partition), brokers in replicas.items()]
    return _json({"version": 1, "partitions": made})


def table_csv(rows: Iterable[Sequence[str | int]]) -> str:
    """Rows as CSV for people, who may open it in a spreadsheet: what that would take for a formula gets an apostrophe, as text has it."""
    return rows_csv([[f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row] for row in rows])


def rows_csv(rows: Iterable[Sequence[str | int]]) -> str:
    """Rows as CSV for Kafka's tools, exactly as they are; lines ended by a line feed."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def script(lines: Iterable[Sequence[str | int]]) -> str:
    """A shell script that calls tools one after the other, each given as its name and its arguments."""
    return _SCRIPT + "".join(f"run {' '.join(quote(str(word)) for word in line)}\n" for line in lines)


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=True) + "\n"
