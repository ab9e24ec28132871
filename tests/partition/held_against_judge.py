"""What is proven healthy, held against the judge of pairs, which has to say the same of it.

PYTHONPATH=lib .venv/bin/python -m tests.partition.held_against_judge --total 100000 --seed 1 [CLUSTER ...]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import pytest

from replica_audit.config import Settings
from replica_audit.engine import local
from replica_audit.local_run import triage
from replica_audit.partition.healthy import proven_healthy
from replica_audit.partition.healthy_rows import healthy_rows
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.rows import AuditedPartition
from replica_audit.stages import judged as judging
from replica_audit.stages import partitions as reading
from replica_audit.stages import producer_files
from replica_audit.stages.judged import judged, proven
from replica_audit.stages.partitions import audit_of
from replica_audit.stages.producer_files import producer_file_problems
from replica_audit.stages.valid_rows import sifted
from tests.mutation.generated import STATES, healthy
from tests.partition.disturbed import STATE, Known, disturbed, read_again


def contradictions(known: KnownPartition, cluster: ClusterFacts) -> list[str] | None:
    """What the judge says otherwise of a partition that passes, by the names of tables; None if it does not pass."""
    one = proven(known, cluster, every_row=True)
    if one is None:
        return None
    made = healthy_rows([one], every_row=True)
    audit = audit_of(known, cluster)
    judge = sifted(audit.row())
    told = [*judge.input_errors, *producer_file_problems(audit), *sifted(made).input_errors]
    said = [f"problem: {one.code}" for one in told] + [f"finding: {one.code}" for one in judge.found]
    said += ["its keys are compared"] if audit.compares_keys else []
    return said + [one.name for one in fields(AuditedPartition) if _values(made, one.name) != _values(judge, one.name)]


def _values(made: AuditedPartition, name: str) -> object:
    found = getattr(made, name)
    if name == "checked":  # how it was found is not the judge's to say
        return [replace(one, proven_pairs=0) for one in found]
    return found if isinstance(found, str) else list(found)


@dataclass(slots=True)
class Held:
    """How many partitions were looked at, how many passed, of these with a follower that lags, and what the judge said otherwise."""

    looked_at: int = 0
    passed: int = 0
    lagging: int = 0
    otherwise: list[tuple[str, list[str]]] = field(default_factory=list)

    def hold(self, known: KnownPartition, cluster: ClusterFacts, name: str) -> None:
        """Look at one."""
        self.looked_at += 1
        said = contradictions(known, cluster)
        self.passed += said is not None
        self.lagging += said is not None and len({_end(known, broker) for broker, _files in known.replicas}) > 1
        if said:
            self.otherwise.append((name, said))


def _end(known: KnownPartition, broker: int) -> int:
    return max((scan.segment.next_offset for of, scan in known.segments if of == broker), default=0)


@contextmanager
def made_up() -> Iterator[None]:
    """Also read what is on no disk: batches that are made up, and producer snapshots, which all say the same."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (judging, reading):
            patch.setattr(module, "read_again", read_again)
        patch.setattr(producer_files, "whole_content", lambda *_of: b"")
        patch.setattr(producer_files, "producer_states", lambda _content: (STATE,))
        yield


@contextmanager
def every_partition(held: Held | None = None, seen: list[Known] | None = None) -> Iterator[None]:
    """Hold every partition that an audit in this process gathers meanwhile, or keep it as it was read."""

    def watched(partitions: Sequence[Known]) -> Iterator[AuditedPartition]:
        if held is not None:
            for known, cluster in partitions:
                held.hold(known, cluster, f"{known.cluster_id} {known.topic}-{known.partition}")
        if seen is not None:
            seen.extend(partitions)
        return judged(partitions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "judged", watched)
        yield


def partitions_of(root: Path) -> list[Known]:
    """The partitions of clusters, as they were read."""
    seen: list[Known] = []
    with every_partition(seen=seen):
        triage([str(root)], Settings(), tell=lambda _event: None, run_id="held")
    return seen


def generated(folder: Path) -> list[Known]:
    """Small healthy partitions, of brokers in every state."""
    return [one for state in STATES for one in partitions_of(healthy(folder / state, state))]


def hold_disturbed(partitions: list[Known], total: int, seed: int) -> Held:
    """Hold so many disturbed partitions; each has a seed of its own, counted up."""
    held = Held()
    for number in range(seed, seed + total):
        rng = random.Random(number)  # noqa: S311
        with made_up():
            held.hold(*disturbed(rng, *rng.choice(partitions)), f"seed {number}")
    return held


def main() -> int:
    """Hold many."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--total", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("roots", nargs="*", type=Path, help="clusters; the generated ones if there is none")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        partitions = [one for root in given.roots for one in partitions_of(root)] or generated(Path(folder))
        partitions = [one for one in partitions if proven_healthy(*one) is not None]
        held = hold_disturbed(partitions, given.total, given.seed)
    for name, said in held.otherwise[:20]:
        print(name, said)  # noqa: T201
    print(Counter(one for _name, said in held.otherwise for one in said))  # noqa: T201
    passed = f"{held.passed} passed ({held.lagging} with one that lags)"
    print(f"{held.looked_at} of {len(partitions)} partitions disturbed, {passed}, {len(held.otherwise)} judged otherwise")  # noqa: T201
    return 1 if held.otherwise else 0


if __name__ == "__main__":
    sys.exit(main())
