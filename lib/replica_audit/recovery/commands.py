"""The lines that call Kafka's tools, of the cluster's own version, and the files that they take: JSON, CSV and quoting by libraries.

Sources: LeaderElectionCommand (--path-to-json-file, KIP-460: 2.4), ReassignPartitionsCommand (--reassignment-json-file; without ZooKeeper
since 2.6), TopicCommand (--bootstrap-server, KIP-377: 2.2), ConfigCommand (of topics without ZooKeeper since 2.5), ConsumerGroupCommand
(--reset-offsets --from-file: lines of topic,partition,offset), TransactionsCommand (abort --start-offset, KIP-664).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import join, quote

from replica_audit.program import option
from replica_audit.protocol.cluster.versions import release
from replica_audit.rows.codes import Protocol
from replica_audit.rows.records import TransactionFacts

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")  # an apostrophe, too: so that taking one away gives back every name
SERVER, ZOOKEEPER = '--bootstrap-server "$BOOTSTRAP"', '--zookeeper "$ZOOKEEPER"'
_NEWEST, _OLD = (4, 99), (1, 1)
_OF_BROKERS = "   # what it does not show is as in the brokers' server.properties"
_SCRIPT = """\
#!/bin/sh
# Written by an audit; read it before you run it. It stops at the first line that fails.
set -eu
: "${BOOTSTRAP:?set BOOTSTRAP to HOST:PORT of a broker, and CONFIG to a file for --command-config if the cluster asks for credentials}"
cd -- "$(dirname -- "$0")"
line='
'
run() {  # the tools tell some errors and end with 0, as that a group has members
  tool=$1; shift
  said=$("$tool" --bootstrap-server "$BOOTSTRAP" ${CONFIG:+--command-config "$CONFIG"} "$@")
  printf '%s\\n' "$said"
  case "$line$said" in *"${line}Error: "*) printf 'stopped here: nothing below was done\\n' >&2; exit 1 ;; esac
}
"""
_SCRIPT_OF_ZOOKEEPER = """\
#!/bin/sh
# Written by an audit; read it before you run it. It stops at the first line that fails.
set -eu
: "${ZOOKEEPER:?set ZOOKEEPER to HOST:PORT of ZooKeeper}"
run() { tool=$1; shift; "$tool" --zookeeper "$ZOOKEEPER" "$@"; }
"""


@dataclass(frozen=True, slots=True)
class Tools:
    """Kafka's tools of a version, such as (4, 2): each method returns one line to type. Old ones go through ZooKeeper."""

    version: tuple[int, int]

    @classmethod
    def of(cls, kafka_version: str | None, protocol: str | None) -> Tools:
        """Those of the brokers' version; where it is not known, of the newest that has the cluster's truncation rule."""
        known = release(kafka_version)
        return cls(known or (_NEWEST if protocol in (None, Protocol.TRUNCATE_ON_FETCH) else _OLD))

    @property
    def elects(self) -> bool:
        """Whether there is a tool for unclean elections."""
        return self.version >= (2, 4)

    @property
    def formats(self) -> bool:
        """Whether disks of a broker may have to be formatted: with KRaft, from its first release for production on (KIP-833: 3.3)."""
        return self.version >= (3, 3)

    @property
    def may_have_zookeeper(self) -> bool:
        """Whether the version still runs with ZooKeeper."""
        return self.version < (4, 0)

    def _at(self, since: tuple[int, int]) -> str:
        return SERVER if self.version >= since else ZOOKEEPER

    def topics(self, only: str = "") -> str:
        """Describe partitions."""
        return f"kafka-topics.sh {self._at((2, 2))} --describe{only and ' ' + only}"

    def configs(self) -> str:
        """Show the settings of a topic; those of the brokers among them since KIP-524 (2.5)."""
        every, rest = ("--describe --all", "") if self.version >= (2, 5) else ("--describe", _OF_BROKERS)
        return f"kafka-configs.sh {self._at((2, 5))} {every} --entity-type topics --entity-name TOPIC{rest}"

    def none_runs(self, brokers: Collection[int], *, any_runs: bool) -> str:
        """Show that none of these brokers runs: on their hosts where no other one runs that could be asked."""
        if any_runs:
            return f"{self.brokers()} | grep 'id: '   # lists brokers, and none of these: {', '.join(map(str, sorted(brokers)))}"
        return "# on each of their hosts: jps -l   # has no line kafka.Kafka"

    def group_positions(self) -> str:
        """Show where groups stand: all of them (KIP-379: 2.4), or one after the other."""
        return f"kafka-consumer-groups.sh {SERVER} --describe {'--all-groups' if self.version >= (2, 4) else '--group GROUP'}"

    def controllers(self) -> str:
        """Show who leads the controllers, before a broker runs that could be asked (KIP-919: 3.7)."""
        if self.version >= (3, 7):
            return "kafka-metadata-quorum.sh --bootstrap-controller CONTROLLER_HOST:PORT describe --status   # has a `LeaderId`"
        return "# on their hosts: jps -l   # lists kafka.Kafka, or QuorumPeerMain of ZooKeeper"

    def brokers(self) -> str:
        """List the brokers that run."""
        return f"kafka-broker-api-versions.sh {SERVER}"

    def reassign(self, name: str, mode: str) -> str:
        """Carry out, or verify, a reassignment."""
        return f"kafka-reassign-partitions.sh {self._at((2, 6))} --reassignment-json-file {name} {mode}"

    def elect(self, name: str) -> str:
        """Elect the leaders of a file uncleanly; before 2.4 a script that allows it for the topics until they are led."""
        if self.elects:
            return f"{self.elect_one()} --path-to-json-file {name}"
        return f"sh {name}"

    def elect_one(self) -> str:
        """The beginning of a line that elects leaders uncleanly, without the partitions; not before 2.4."""
        return f"kafka-leader-election.sh {SERVER} --election-type UNCLEAN"

    def elect_preferred(self, name: str) -> str:
        """Give leaderships back."""
        if self.elects:
            return f"kafka-leader-election.sh {SERVER} --election-type PREFERRED --path-to-json-file {name}"
        return f"kafka-preferred-replica-election.sh {ZOOKEEPER} --path-to-json-file {name}"

    def in_sync(self, brokers: Collection[int], but: Sequence[str] = ()) -> str:
        """Show that these brokers' replicas are in the ISR, whatever others do; `but`: partitions where they need not be."""
        named = ", ".join(map(str, sorted(brokers)))
        one_of = f"one of {named}" if len(brokers) > 1 else named
        listed = self.topics("--under-replicated-partitions")  # also what no broker leads yet
        rest = f"; {', '.join(but)} need not: a later step rebuilds it" if but else ""
        return f"{listed}   # after a while, a line with a leader and {one_of} in `Replicas` has it in `Isr`, too{rest}"


def allow_unclean(topics: Iterable[str], *, allow: bool) -> str:
    """A script that allows unclean elections of topics through ZooKeeper, or forbids them: the controller elects whoever runs.

    What a topic had before is not known, and without a setting of its own it has that of the brokers: so it is forbidden by name.
    """
    change = ("--add-config", f"unclean.leader.election.enable={str(allow).lower()}")
    lines = (("kafka-configs.sh", "--alter", "--entity-type", "topics", f"--entity-name={topic}", *change) for topic in topics)
    return _SCRIPT_OF_ZOOKEEPER + _lines(lines)


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
    return _SCRIPT + _lines(lines)


def _lines(lines: Iterable[Sequence[str | int]]) -> str:
    return "".join(f"run {' '.join(quote(str(word)) for word in line)}\n" for line in lines)


def abort_arguments(one: TransactionFacts, topic: str, partition: int) -> str:
    """What `kafka-transactions.sh abort` ends a transaction by."""
    where = f"{join(option('--topic', topic))} --partition {partition}"
    return f"{where} --start-offset {one.first_offset}" if one.abort_form != "producer-id" else f"{where} {abort_by_producer(one)}"


def abort_by_producer(one: TransactionFacts) -> str:
    """The same of brokers before 3.0."""
    # as the tool does for a producer without a marker: no coordinator's epoch is lower
    epoch = "EPOCH" if one.marker_coordinator_epoch is None else max(one.marker_coordinator_epoch, 0)
    return f"--producer-id {one.producer_id} --producer-epoch {one.producer_epoch} --coordinator-epoch {epoch}"


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=True) + "\n"
