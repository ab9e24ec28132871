"""Run files of test vectors: `tests/run_vectors.py FILE...` (JSON arrays, or JSONL). Ends with `N passed, M failed`; exit 1 if M > 0.

A row names its `kind`; an unknown kind is a failure. Paths inside rows are relative to the file's folder.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV_PYTHON = ROOT / ".venv" / "bin" / "python"


def kinds() -> dict[str, Callable[[dict[str, Any], Path], None]]:
    """Every kind of row and the function that checks it: it raises where the row does not hold."""
    from tests.vector_kinds import epoch_tables, replication, verdicts
    from tests.vector_kinds.dump_samples import run as dump_samples

    return {
        "epoch_table": epoch_tables.epoch_table,
        "epoch_table_kip101": epoch_tables.epoch_table_kip101,
        "table_from_batches": epoch_tables.table_from_batches,
        "batch_truncation": epoch_tables.batch_truncation,
        "divergence": replication.divergence,
        "follower_step": replication.follower_step,
        "truncation": replication.truncation,
        "consumer_validation": replication.consumer_validation,
        "verdict": verdicts.verdict,
        "dump_samples": dump_samples,
    }


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of one file."""
    text = path.read_text(encoding="utf-8")
    yield from json.loads(text) if text.lstrip().startswith("[") else (json.loads(line) for line in text.splitlines() if line.strip())


def main(files: list[str]) -> int:
    """Run every row of every file, print each failure and the count."""
    checks = kinds()
    passed = failed = 0
    for name in files:
        path = Path(name)
        for row in rows(path):
            try:
                checks[row["kind"]](row, path.parent)
                passed += 1
            except Exception as error:  # noqa: BLE001 - whatever a row raises is that row's failure
                failed += 1
                detail = str(error) or traceback.format_exc(limit=-1)
                print(f"FAILED {path.name} {row.get('id')} ({row.get('kind')}): {type(error).__name__}: {detail}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    if VENV_PYTHON.exists() and Path(sys.prefix) != ROOT / ".venv":
        os.execv(VENV_PYTHON, [str(VENV_PYTHON), *sys.argv])
    sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
    if len(sys.argv) < 2:
        sys.exit("usage: tests/run_vectors.py FILE...  (JSON or JSONL files of vectors)")
    sys.exit(main(sys.argv[1:]))
