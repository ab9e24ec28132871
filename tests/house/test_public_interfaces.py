"""Nothing reaches through PySpark into the JVM: that works with one release of Spark and Delta, and not at all in Spark Connect."""

from __future__ import annotations

import re
from pathlib import Path

from tests.house.checkout import ROOT

LIB = ROOT / "lib" / "replica_audit"
PRIVATE = re.compile(r"\._(jvm|jsc|jdf|jsparkSession|jconf|jschema|jseq|jc|jmap|java_obj|jwrite|gateway)\b")
# the JVM that the launcher starts is its own
OWN = LIB / "commands" / "spark_process.py"


def uses(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [f"{path.relative_to(ROOT)}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if PRIVATE.search(line)]


def test_only_the_launcher_speaks_to_the_jvm() -> None:
    assert uses(OWN), "else nothing would be found elsewhere either"
    assert [use for path in sorted(LIB.rglob("*.py")) if path != OWN for use in uses(path)] == []
