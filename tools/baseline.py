"""Dump what an audit says of many inputs, and compare two dumps by facts.

    .venv/bin/python tools/baseline.py dump FILE INPUT...     one JSON line for each fact of each input
    .venv/bin/python tools/baseline.py compare FILE FILE      what only one of the two has; exit code 1 if anything

A fact is a row of a table, without what differs from run to run (run_id, times of the run); the exit code; and, with
`--texts`, the explanation of each partition with a finding and the plan. Each input is audited twice: with every replica as the
leader, so that every partition is judged in full, and without, so that what is healthy is proven first (`partition/healthy.py`).
Inputs are folders as `--input` takes them; a folder whose subfolders are several inputs (`CLUSTERS/*/before`) is named with a pattern.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from replica_audit.config import Settings
from replica_audit.errors import AuditError
from replica_audit.local_run import triage
from replica_audit.past.explained import Explainer
from replica_audit.past.run import PastRun
from replica_audit.report.facts import question
from replica_audit.report.text import explanation_text
from replica_audit.rows import TABLES

RUN_ID = "baseline"
VOLATILE = frozenset({"run_id", "started_at", "finished_at", "run_date", "versions", "config", "first_seen_run_id", "last_seen_run_id"})
SHOWN = 20  # differing facts that are printed of each table of an input


def facts(path: str, *, texts: bool) -> Iterator[dict[str, Any]]:
    """Yield every fact of an input: its name with the way that it is audited, its table, and the row."""
    yield from _facts_of_run(path, path, Settings(detail="all", what_if_leaders=True), texts=texts)
    yield from _facts_of_run(path, f"{path} (healthy first)", Settings(detail="findings"), texts=texts)


def _facts_of_run(path: str, name: str, settings: Settings, *, texts: bool) -> Iterator[dict[str, Any]]:
    try:
        done = triage([path], settings, tell=lambda event: None, run_id=RUN_ID)
    except AuditError as error:
        yield {"input": name, "table": "error", "row": {"exit_code": error.exit_code, "text": str(error)}}
        return
    for table in TABLES:
        rows = done.tables.dataset(table.name)
        for row in [] if rows is None else rows.to_table().to_pylist():
            yield {"input": name, "table": table.name, "row": {key: value for key, value in row.items() if key not in VOLATILE}}
    if texts:
        yield from _texts(name, PastRun(done.tables, RUN_ID))


def _texts(path: str, run: PastRun) -> Iterator[dict[str, Any]]:
    from replica_audit.commands.plan import write_plan

    found, explainer = run.tables.dataset("findings"), Explainer(run.tables)
    partitions = (
        {(row["cluster_id"], row["topic"], row["partition"]) for row in found.to_table().to_pylist()} if found is not None else set()
    )
    for cluster, topic, number in sorted(partitions, key=str):
        if topic is not None and number is not None:
            asked = question.Question(topic=topic, partition=number, run_id=RUN_ID, cluster_id=cluster)
            try:
                text = explanation_text.render(explainer.explain(asked))
            except AuditError as error:
                text = str(error)
            yield {"input": path, "table": "explain", "row": {"partition": f"{topic}-{number}", "text": text}}
    with tempfile.TemporaryDirectory() as folder:
        try:
            write_plan(run, "--plan", Path(folder, "plan"), "re-read", None, None)
        except AuditError as error:
            yield {"input": path, "table": "plan", "row": {"error": str(error)}}
        for file in sorted(Path(folder).rglob("*")):
            if file.is_file():
                yield {
                    "input": path,
                    "table": "plan",
                    "row": {"file": file.name, "text": file.read_text(errors="replace").replace(folder, "DIR")},
                }


def _dumped(path: str, *, texts: bool) -> list[str]:
    return sorted(json.dumps(fact, default=_plain, sort_keys=True) for fact in facts(path, texts=texts))


def _plain(value: object) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)


def dump(target: Path, inputs: list[str], *, texts: bool) -> None:
    """Write every fact of the inputs that the patterns name."""
    paths = sorted({str(path) for pattern in inputs for path in Path("/").glob(str(Path(pattern).absolute()).lstrip("/"))})
    with ProcessPoolExecutor(2) as pool, target.open("w") as out:
        for lines in pool.map(partial(_dumped, texts=texts), paths):
            out.writelines(f"{line}\n" for line in lines)
    sys.stderr.write(f"{len(paths)} inputs\n")


def compare(before: Path, after: Path) -> int:
    """Print what only one dump has, by input and table; return 1 if anything."""
    sides: list[dict[tuple[str, str], list[str]]] = []
    for path in (before, after):
        rows: dict[tuple[str, str], list[str]] = defaultdict(list)
        for line in path.open():
            fact = json.loads(line)
            rows[fact["input"], fact["table"]].append(json.dumps(fact["row"], sort_keys=True))
        sides.append(rows)
    differs = False
    for key in sorted({*sides[0], *sides[1]}):
        gone, new = (sorted(set(one.get(key, [])) - set(other.get(key, []))) for one, other in (sides, sides[::-1]))
        if gone or new:
            differs = True
            sys.stdout.write(" ".join(key) + "\n")
            for sign, rows_of_side in (("-", gone), ("+", new)):
                for row in islice(rows_of_side, SHOWN):
                    sys.stdout.write(f"  {sign} {row}\n")
    return int(differs)


def main() -> int:
    """Run the command that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    dumps = commands.add_parser("dump")
    dumps.add_argument("file", type=Path)
    dumps.add_argument("inputs", nargs="+")
    dumps.add_argument("--texts", action="store_true", help="also explanations and plans")
    compared = commands.add_parser("compare")
    compared.add_argument("before", type=Path)
    compared.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "compare":
        return compare(given.before, given.after)
    dump(given.file, given.inputs, texts=given.texts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
