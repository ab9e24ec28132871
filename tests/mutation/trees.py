"""Whole audits of mutated trees: the stages of an audit, in this process, and what may leave it.

PYTHONPATH=lib .venv/bin/python -m tests.mutation.trees --total 400 --seed 1
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from replica_audit.config import Settings
from replica_audit.rows import INPUT_ERRORS, OF_PARTITIONS
from replica_audit.rows.arrow import AUDITED
from replica_audit.rows.columns import checker
from tests.collect.collections import collect_broker
from tests.mutation.mutators import ANY, BINARY, common, mutated
from tests.mutation.run import interrupted
from tests.support.in_process import audit

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
DUMPS = Path(__file__).parents[1] / "data" / "dump-log"
Row = dict[str, Any]
_OWN = {"broker_id": None, "line": None, "byte_offset": None}


def roots() -> list[Path]:
    """The trees that are mutated: raw segments of two lines of Kafka, and text."""
    return [SAMPLE / "committed-loss", SAMPLE / "kafka-1.1.1-kip279-scenario-1-all", DUMPS / "multi-round"]


def mutate_tree(rng: random.Random, root: Path) -> list[Path]:
    """Mutate one to four files of a tree."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)
    small = [path for path in files if path.suffix != ".log" or path.name == "server.log"]
    chosen = [rng.choice(small if rng.random() < 0.5 else files) for _ in range(rng.choice((1, 1, 2, 4)))]
    for path in chosen:
        content = path.read_bytes()
        if not content:
            continue
        made, _sound = mutated(rng, content, [content], BINARY if path.suffix == ".log" else ANY)
        assert common(content, made) <= len(content)
        path.write_bytes(made)
    return chosen


def wrong_rows(tables: dict[str, list[Row]]) -> str | None:
    """What of an audit's rows no table would take; None if all can be written."""
    told = [{**_OWN, **row} for row in (*tables["problems"], *tables["input_errors"])]
    for problem in told:
        if not problem["remedy"] or not problem["detail"]:
            return f"a problem without a remedy: {problem}"
    for table, rows in [*((table, tables[table.name]) for table in OF_PARTITIONS), (INPUT_ERRORS, told)]:
        try:
            pa.array(rows, AUDITED[table.name])
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            return f"{table.name}: {error}"
        violation = checker(table)
        violated = next((found for row in rows if (found := violation(SimpleNamespace(**row))) is not None), None)
        if violated:
            return f"{table.name} refuses a row: {violated}"
    return None


def judge(root: Path, folder: Path, seed: int) -> str | None:
    """One tree; what is wrong, None if nothing."""
    rng = random.Random(seed)  # noqa: S311 - to be repeated
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    if rng.random() < 0.2 and root.parent == SAMPLE:
        tree.mkdir()
        for broker in sorted(root.glob("broker-*")):
            collect_broker(broker, tree)
    else:
        shutil.copytree(root, tree)
    chosen = mutate_tree(rng, tree)
    try:
        with interrupted():
            found = wrong_rows(audit(tree, settings=Settings(what_if_leaders=True)))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        found = f"{type(error).__name__}: {error}"
    return found and f"{found} ({', '.join(str(path.relative_to(tree)) for path in chosen)})"[:500]


def main() -> int:
    """The long run."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--total", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    began, failed = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.seed, given.seed + given.total):
            found = judge(roots()[seed % len(roots())], Path(folder), seed)
            if found:
                failed += 1
                print(f"--seed {seed} --total 1: {found}", flush=True)  # noqa: T201
    print(f"{given.total} trees, {failed} failures, {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
