"""The commands: options, help, exit codes, and the one place that turns errors into messages."""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from replica_audit import config
from replica_audit.errors import AuditError, UsageError

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
INTERRUPTED = 130

_AUDIT_HELP = """\
Read what every broker has on disk and say, for every partition and follower, where its log
parts from the leader's, what it truncates to, and what is lost.

An input is a directory with one folder per broker (broker-1, broker-2, ...), each holding that
broker's log directories or text of kafka-dump-log; beside them, if there is one, a
cluster-metadata.json. Brokers may be down. Nothing in the input is written to.
"""
_AUDIT_EXIT = """\
exit codes:
  0    nothing found
  1    findings at or above --fail-on
  2    wrong usage or configuration, or no readable input
  3    nothing at or above --fail-on, but some replicas could not be compared
  130  interrupted

examples:
  ./spark-submit.sh audit
  ./spark-submit.sh audit --input /backup/brokers --warehouse /audits --fail-on critical
  ./spark-submit.sh audit --input /backup/brokers --topics 'orders|payments' --json audit.json
"""

_EXPLAIN_HELP = """\
Explain one partition of a past run so that a colleague believes it: both logs drawn over their
offsets, every question and answer between follower and leader with the rule that decides, what
the follower loses, the same under the other protocols, the evidence, and what to do.

Only the tables are read: no brokers, no logs, no Spark, no Java.
"""
_EXPLAIN_EXIT = """\
exit codes:
  0    explained, whatever the verdict
  2    wrong usage; no such run, partition or follower; or a table cannot be read
  130  interrupted

examples:
  ./spark-submit.sh explain --partition orders-0
  ./spark-submit.sh explain --partition orders-0 --follower 2
  ./spark-submit.sh explain --warehouse /audits --run-id 20260102T030405Z-1a2b3c --partition orders-0
  ./spark-submit.sh explain --partition orders-0 --cluster tGgMi5ChQQaP400G_KG93g | less
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a command. `setting` names the key of the configuration that it overrides, if any."""

    flag: str
    help: str
    setting: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command: its options and what runs it. `run` returns the exit code."""

    name: str
    description: str
    epilog: str
    options: tuple[Option, ...]
    run: Callable[[argparse.Namespace], int]


def _audit(given: argparse.Namespace) -> int:
    given.run_id = given.run_id or _new_run_id()
    given.run_date = given.run_date or datetime.now(UTC).date()
    settings = config.load(given.config, {key: value for key, value in vars(given).items() if key in config.Settings.model_fields})
    if not _RUN_ID.fullmatch(given.run_id):
        raise UsageError(f"--run-id {given.run_id!r}: letters, digits, '.', '_' and '-' only, 128 at most")
    if given.cluster_metadata and not given.cluster_metadata.is_file():
        raise UsageError(f"--cluster-metadata {given.cluster_metadata}: no such file")
    _check_writable(given.json)
    from replica_audit import pipeline  # Spark is imported only where it is used: --help must not wait for it
    from replica_audit.report import text
    from replica_audit.storage.session import session

    request = pipeline.Request(
        inputs=tuple(given.input or [str(SAMPLE)]),
        warehouse=_warehouse(given.warehouse),
        settings=settings,
        run_id=given.run_id,
        run_date=given.run_date,
        metadata=given.cluster_metadata.absolute() if given.cluster_metadata else None,
    )
    if not given.input:
        _tell(f"no --input: auditing the sample data in {SAMPLE}")
    report = pipeline.audit(session(), request, _tell)
    if given.json:
        given.json.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
    print("\n" + text.render(report), end="", flush=True)  # noqa: T201 - the summary is the command's output
    return report.exit_code


def _explain(given: argparse.Namespace) -> int:
    from replica_audit.report import explanation, explanation_text, question
    from replica_audit.storage.reader import WarehouseTables

    topic, partition = question.parse_partition(given.partition)
    asked = question.Question(topic=topic, partition=partition, run_id=given.run_id, cluster_id=given.cluster, follower_id=given.follower)
    _show(explanation_text.render(explanation.explain(WarehouseTables(given.warehouse), asked)))
    return 0


def _show(text: str) -> None:
    """Print a command's output; a reader that has seen enough, such as head, is no error."""
    try:
        print(text, end="", flush=True)  # noqa: T201
    except BrokenPipeError:
        # else the interpreter flushes once more when it ends, and complains
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_writable(path: Path | None) -> None:
    """Fail before the work, not after it."""
    if path is None:
        return
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"--json {path}: not a file in an existing directory")
    try:
        path.open("a", encoding="utf-8").close()
    except OSError as error:
        raise UsageError(f"--json {path}: {error.strerror}") from None


def _warehouse(given: str) -> str:
    """A local directory becomes absolute; `catalog.schema` and URIs stay as they are."""
    if "://" in given or re.fullmatch(r"[A-Za-z_]\w*\.[A-Za-z_]\w*", given):
        return given
    path = Path(given).expanduser().absolute()
    if path.exists() and not path.is_dir():
        raise UsageError(f"--warehouse {given}: is a file, not a directory")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--warehouse {given}: {error.strerror}") from None
    return str(path)


def _new_run_id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress


COMMANDS: tuple[Command, ...] = (
    Command(
        name="audit",
        description=_AUDIT_HELP,
        epilog=_AUDIT_EXIT,
        run=_audit,
        options=(
            Option(
                flag="--input",
                help="directory with one folder per broker, or a folder of such directories; repeatable (default: the sample data)",
                arguments={"action": "append", "metavar": "DIR"},
            ),
            Option(
                flag="--warehouse",
                help="where the Delta tables are: a directory, a URI, or catalog.schema (default: ./warehouse)",
                arguments={"default": "warehouse", "metavar": "DIR"},
            ),
            Option(
                flag="--cluster-metadata",
                help="cluster-metadata.json to use instead of the one beside the broker folders",
                arguments={"type": Path, "metavar": "FILE"},
            ),
            Option(flag="--config", help="YAML file with settings, such as conf/audit.yaml", arguments={"type": Path, "metavar": "FILE"}),
            Option(
                flag="--run-id",
                help="name of the run; a run of the same name is replaced (default: UTC time and a random part)",
                arguments={"default": None, "metavar": "ID"},
            ),
            Option(
                flag="--run-date",
                help="date that the run is for, YYYY-MM-DD (default: today, UTC)",
                arguments={"type": date.fromisoformat, "default": None, "metavar": "DATE"},
            ),
            Option(flag="--topics", setting="topics", help="audit only topics whose whole name matches", arguments={"metavar": "REGEX"}),
            Option(
                flag="--protocol",
                setting="protocol",
                help="truncation rule: auto, high-watermark, kip-101, kip-279 or truncate-on-fetch (default: auto)",
                arguments={"metavar": "RULE"},
            ),
            Option(
                flag="--what-if-leaders",
                setting="what_if_leaders",
                help="also compute every replica as the leader of the others: what each choice would lose, ranked",
                arguments={"action": "store_true"},
            ),
            Option(
                flag="--fail-on",
                setting="fail_on",
                help="lowest severity that makes the exit code 1: critical, error or warning (default: error)",
                arguments={"metavar": "SEVERITY"},
            ),
            Option(flag="--json", help="write the summary as JSON, too", arguments={"type": Path, "metavar": "FILE"}),
        ),
    ),
    Command(
        name="explain",
        description=_EXPLAIN_HELP,
        epilog=_EXPLAIN_EXIT,
        run=_explain,
        options=(
            Option(flag="--partition", help="what to explain, such as orders-0", arguments={"required": True, "metavar": "TOPIC-N"}),
            Option(
                flag="--follower",
                help="explain only this broker's replica (default: every follower)",
                arguments={"type": int, "metavar": "ID"},
            ),
            Option(
                flag="--warehouse",
                help="where an audit wrote its tables: a directory or a URI (default: ./warehouse)",
                arguments={"default": "warehouse", "metavar": "DIR"},
            ),
            Option(
                flag="--run-id", help="the run to look at; it must be complete (default: the latest that is)", arguments={"metavar": "ID"}
            ),
            Option(flag="--cluster", help="cluster id, where several clusters have such a partition", arguments={"metavar": "ID"}),
        ),
    ),
)


def parser(command: Command) -> argparse.ArgumentParser:
    """The command's parser. Options that override a setting appear in the result only when given."""
    made = argparse.ArgumentParser(
        prog=f"spark-submit.sh {command.name}",
        description=command.description,
        epilog=command.epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for option in command.options:
        arguments = dict(option.arguments)
        if option.setting:
            arguments |= {"dest": option.setting, "default": argparse.SUPPRESS}
        made.add_argument(option.flag, help=option.help, **arguments)
    return made


def main(arguments: Sequence[str]) -> int:
    """Run `arguments[0]` with the rest; returns the exit code. Nothing that a user can cause ends in a traceback."""
    command = next((command for command in COMMANDS if command.name == arguments[0]), None)
    if command is None:
        raise AssertionError(f"no command {arguments[0]}")
    given = parser(command).parse_args(list(arguments[1:]))
    try:
        return command.run(given)
    except AuditError as error:
        _tell(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _tell("interrupted: the run is not complete, its rows do not count" if command.name == "audit" else "interrupted")
        return INTERRUPTED
