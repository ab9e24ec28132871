"""Kafka's own jars: fetched once into `.cache/lab-jars-LINE/` of the project."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache"
VERSIONS = {"4.3": "4.3.1", "3.9": "3.9.2"}
DUMP_TOOL = {"4.3": "org.apache.kafka.tools.DumpLogSegments", "3.9": "kafka.tools.DumpLogSegments"}


def java() -> str:
    """The Java runtime: JAVA_HOME's, else the one on PATH.

    Raises:
        FileNotFoundError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    if not (found := found or shutil.which("java")):
        raise FileNotFoundError("no java: set JAVA_HOME to a Java 17 or 21 runtime")
    return found


def class_path(line: str) -> str:
    """The class path of a line of Kafka (`4.3`, `3.9`); its jars are fetched if they are not there.

    Raises:
        subprocess.CalledProcessError: they could not be fetched; what was said is on stderr.
    """
    subprocess.run([HERE / "jars.sh", line], check=True, stdin=subprocess.DEVNULL)
    return f"{CACHE / f'lab-jars-{line}'}/*"
