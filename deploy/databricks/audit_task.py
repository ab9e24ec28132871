"""The task of databricks.yml: runs this project's launcher with its own Spark, and fails with the meaning of its exit code.

A task of Databricks that ends by `sys.exit` shows a traceback of SystemExit, and what it prints of a child is easily overlooked; an
exception's text is what the page of the run, the notification and the API show as the error.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def checkout() -> Path:
    """The folder of the project that this file is in; where its name is not known, that of the program's."""
    place = Path(globals().get("__file__", sys.argv[0])).resolve()
    return next(folder for folder in place.parents if (folder / "spark-submit.sh").is_file())


def environment() -> dict[str, str]:
    """What the audit is given: Spark, Python and class path of the cluster are not its own."""
    kept = ("SPARK_SUBMIT_ARGS", "SPARK_DRIVER_MEMORY", "SPARK_LOCAL_DIRS")
    return {name: value for name, value in os.environ.items() if name in kept or not name.startswith(("PYSPARK_", "SPARK_", "PYTHONPATH"))}


def main(arguments: list[str]) -> None:
    """Run a job of the project.

    Raises:
        RuntimeError: its exit code is not 0.
    """
    with tempfile.TemporaryDirectory(prefix="replica-audit-") as work:
        prepared = os.environ.get("REPLICA_AUDIT_HOME")  # such as an init script made, which saves the minutes of the first start
        home = Path(prepared) if prepared else Path(work, "home")
        if not prepared:  # a checkout is on a file system of the workspace, which is slow, and often not to be written
            shutil.copytree(checkout(), home, ignore=shutil.ignore_patterns(".git", ".venv", ".cache"))
        message = Path(work, "message.json")
        command = ["bash", str(home / "spark-submit.sh"), *arguments, f"--termination-message={message}"]
        code = subprocess.run(command, env=environment(), check=False).returncode  # noqa: S603 - our own launcher
        if code:
            line = message.read_text(encoding="utf-8") if message.exists() else ""
            raise RuntimeError(f"exit code {code}: {json.loads(line)['message']}; {line}" if line else f"exit code {code}")


if __name__ == "__main__":
    main(sys.argv[1:])
