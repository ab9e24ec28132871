"""`python -m tests.kafka_lab COMMAND`: the laboratory by hand."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import suppress
from pathlib import Path

from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.commits import commits
from tests.kafka_lab.console import say
from tests.kafka_lab.hang import hanging
from tests.kafka_lab.hanging import copy_and_ask
from tests.kafka_lab.history import draw
from tests.kafka_lab.jars import VERSIONS
from tests.kafka_lab.java_client import JavaClient
from tests.kafka_lab.perform import perform
from tests.kafka_lab.plans import plans
from tests.kafka_lab.predict import predict
from tests.kafka_lab.quiet import PAUSE_S, quiet
from tests.kafka_lab.starts import starts


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka_lab", description="Real Kafka brokers on loopback, and the audit beside them."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--kafka", choices=VERSIONS, default="4.3", help="line of Kafka (default: %(default)s)")
    common.add_argument("--seed", type=int, default=1, help="of what is drawn at random (default: %(default)s)")
    common.add_argument("--keep", type=Path, metavar="DIR", help="where the files of what went wrong are kept (default: nowhere)")
    one = commands.add_parser("predict", parents=[common], help="audit diverged replicas, then let the brokers do it, and compare")
    one.add_argument("--runs", type=int, default=10, help="histories, of the seeds from --seed on (default: %(default)s)")
    one.add_argument("--partitions", type=int, default=20, help="partitions of each (default: %(default)s)")
    two = commands.add_parser(
        "quiet", parents=[common], help="audit copies of a busy, healthy cluster: nothing may be found but what is planted"
    )
    two.add_argument("--audits", type=int, default=50, help="how many (default: %(default)s)")
    two.add_argument("--compare", choices=("content", "records"), default="records", help="as of audit (default: %(default)s)")
    what = "seconds between two moves of a leader, of replicas, or of a broker that is restarted (default: %(default)s)"
    two.add_argument("--pause", type=float, default=PAUSE_S, metavar="S", help=what)
    commands.add_parser("up", parents=[common], help="start a cluster, say where it is, and end it with the next interrupt")
    three = commands.add_parser("scenario", parents=[common], help="perform one history, and keep the diverged copies in --keep")
    three.add_argument("--partitions", type=int, default=20, help="how many (default: %(default)s)")
    four = commands.add_parser("commits", parents=[common], help="what is proven to be committed, against high watermarks and producers")
    four.add_argument("--runs", type=int, default=5, help="histories, of the seeds from --seed on (default: %(default)s)")
    four.add_argument("--partitions", type=int, default=40, help="partitions of each (default: %(default)s)")
    five = commands.add_parser(
        "hanging", parents=[common], help="what the audit says of open transactions, against the brokers and kafka-transactions.sh"
    )
    five.add_argument("--runs", type=int, default=5, help="histories, of the seeds from --seed on (default: %(default)s)")
    five.add_argument("--partitions", type=int, default=20, help="partitions of each (default: %(default)s)")
    six = commands.add_parser("starts", parents=[common], help="start one stopped broker alone: it does what the audit says of its start")
    six.add_argument("--histories", type=int, default=5, help="of the seeds from --seed on (default: %(default)s)")
    six.add_argument("--partitions", type=int, default=20, help="partitions of each (default: %(default)s)")
    seven = commands.add_parser("plans", parents=[common], help="make PLAN.md of a history, and do it line by line: nothing is lost")
    seven.add_argument("--histories", type=int, default=5, help="of the seeds from --seed on (default: %(default)s)")
    seven.add_argument("--partitions", type=int, default=20, help="partitions of each (default: %(default)s)")
    return parser


def _up(line: str) -> None:
    with Lab(line) as lab:
        say(f"Kafka {VERSIONS[line]} at {','.join(lab.bootstrap)}, in {lab.root}; Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            signal.pause()


def _scenario(line: str, seed: int, partitions: int, keep: Path | None) -> None:
    history = draw(seed, partitions)
    say(str(history))
    with Lab(line) as lab:
        root = (keep or Path.cwd()) / f"kafka-{line}-seed-{seed}"
        with JavaClient(lab) as java:
            perform(lab, java, history)
            copy_and_ask(lab, java, root)
    say(f"diverged copies are in {root}; broker {history.steps[-1].alone} leads")


def main() -> int:
    """Run a command. Returns 0, or 1 if the audit and the brokers differ, or a history could not be performed."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended and removed
    line, seed, keep = arguments.kafka, arguments.seed, arguments.keep
    match arguments.command:
        case "up":
            _up(line)
        case "scenario":
            _scenario(line, seed, arguments.partitions, keep)
        case "predict":
            totals = predict(line, seed=seed, runs=arguments.runs, partitions=arguments.partitions, keep=keep)
            return 1 if totals.differences or totals.failed else 0
        case "commits":
            told = commits(line, seed=seed, runs=arguments.runs, partitions=arguments.partitions, keep=keep)
            return 1 if told.wrong else 0
        case "hanging":
            hung = hanging(line, seed=seed, runs=arguments.runs, partitions=arguments.partitions, keep=keep)
            return 1 if hung.wrong or hung.failed else 0
        case "starts":
            started = starts(line, seed=seed, histories=arguments.histories, partitions=arguments.partitions, keep=keep)
            return 1 if started.differences or started.failed else 0
        case "plans":
            planned = plans(line, seed=seed, histories=arguments.histories, partitions=arguments.partitions, keep=keep)
            return 1 if planned.differences or planned.failed else 0
        case "quiet":
            result = quiet(line, audits=arguments.audits, seed=seed, keep=keep, mode=arguments.compare, pause_s=arguments.pause)
            return 1 if result.alarms or result.missed or result.clean_over_planted or result.found < result.planted else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
