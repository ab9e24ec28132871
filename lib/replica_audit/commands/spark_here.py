"""Spark in this process, for the installed command: what spark-submit.sh does before it starts a job, for one machine.

The JVM gets the settings that the launcher gives it (tools/environment.sh), and the same Delta Lake jars, by their SHA-256.
They are fetched once, by the Ivy that comes with Spark, into the user's cache; REPLICA_AUDIT_JARS names a folder that has them, where there
is no network.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from replica_audit.commands import spark_process
from replica_audit.commands.command import Command, tell
from replica_audit.errors import UsageError
from replica_audit.extras import SPARK, require
from replica_audit.program import COMMAND, shipped

_OLDEST_JAVA = 17
_JVM_FLAGS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
_OF_ANOTHER_SPARK = """
SPARK_HOME SPARK_CONF_DIR SPARK_REMOTE SPARK_API_MODE SPARK_CONNECT_MODE_ENABLED PYSPARK_DRIVER_PYTHON PYSPARK_DRIVER_PYTHON_OPTS PYTHONHOME
"""
_OFFLINE = "REPLICA_AUDIT_JARS"


def prepare(command: Command) -> None:
    """Start the JVM that the command's session will use.

    Raises:
        AuditError: the extra, Java or the jars are missing, or another machine is to run Spark.
    """
    require(command.name, SPARK)
    refuse_spark(command.name, version("pyspark"))
    master = os.environ.get("SPARK_MASTER", "") or "local[*]"
    if not re.fullmatch(r"local(\[.*\])?", master):
        raise UsageError(
            f"SPARK_MASTER={master}: {COMMAND} runs Spark on this machine only; for a cluster, start ./spark-submit.sh of a checkout"
        )
    java = _java()
    jars = _jars(java)
    for name in _OF_ANOTHER_SPARK.split():
        os.environ.pop(name, None)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONSAFEPATH"] = "1"  # workers import nothing from the folder that the command is started in
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark does not start where the machine's name leads nowhere
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*flags(command.name, master, jars), *_more(), "pyspark-shell"])
    os.environ["SPARK_LAUNCHER_OPTS"] = f"{os.environ.get('SPARK_LAUNCHER_OPTS', '')} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark_process.start()


def refuse_spark(name: str, found: str) -> None:
    """Refuse a Spark that the Delta Lake jars are not for.

    Raises:
        UsageError: so it is; says which one they are for.
    """
    wanted = re.findall(r"delta-spark_([0-9.]+)_", shipped("conf/ivy.xml").read_text(encoding="utf-8"))[0]
    if not found.startswith(f"{wanted}."):
        raise UsageError(
            f"{COMMAND} {name} starts Spark {wanted}, and Spark {found} is installed: pip install 'pyspark~={wanted}.0', or call "
            "replica_audit.spark.audit with a session of your own"
        )


def flags(name: str, master: str, jars: Path) -> list[str]:
    """What spark-submit is given, those of the launcher for one machine."""
    log = f'-Dlog4j2.configurationFile="{shipped("conf/log4j2.properties")}"'
    settings = {
        "spark.driver.defaultJavaOptions": f"{_JVM_FLAGS} {log}",
        "spark.sql.warehouse.dir": str(_cache() / "spark-warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    return [
        *("--master", master, "--name", f"replica-audit {name}"),
        *("--properties-file", str(shipped("conf/spark-defaults.conf"))),
        *("--driver-memory", os.environ.get("SPARK_DRIVER_MEMORY", "") or "2g"),
        *("--driver-class-path", f"{jars}/*"),
        *(word for setting, value in settings.items() for word in ("--conf", f"{setting}={value}")),
    ]


def _more() -> list[str]:
    return os.environ.get("SPARK_SUBMIT_ARGS", "").split()  # as the launcher: blanks separate, quotes mean nothing


def _cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if given else Path.home() / ".cache") / COMMAND


def _java() -> str:
    """The Java runtime that Spark will start: JAVA_HOME's, else the one on PATH."""
    home = os.environ.get("JAVA_HOME", "")
    found = []
    for java in (f"{home}/bin/java" if home else None, shutil.which("java")):
        if not java:
            continue
        try:
            said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603 - the user's own Java
        except OSError:
            found.append(f"{java}, which cannot be started")
            continue
        version = re.search(r'version "(?:1\.)?(\d+)', said)
        if version and int(version[1]) >= _OLDEST_JAVA:
            if not java.startswith(f"{home}/"):
                os.environ.pop("JAVA_HOME", None)  # Spark looks there first
            return java
        found.append(f"Java {version[1]} ({java})" if version else f"{java}, which does not print its version")
    raise UsageError(
        f"a Java {_OLDEST_JAVA} or newer runtime is needed; found: {'; '.join(found) or 'none (JAVA_HOME is not set, no java on PATH)'}; "
        f"`{COMMAND} triage` answers without Java"
    )


def _jars(java: str) -> Path:
    """The folder of the Delta Lake jars; they are fetched where they are not there, or not as they should be."""
    if given := os.environ.get(_OFFLINE, ""):
        if wrong := _differing(Path(given)):
            raise UsageError(f"{_OFFLINE}={given}: {wrong[0]}")
        return Path(given).absolute()
    listed = shipped("conf/ivy.sha256").read_bytes()
    folder = _cache() / f"jars-{hashlib.sha256(listed).hexdigest()[:12]}"
    if folder.is_dir() and not _differing(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as made:
            _fetch(java, Path(made))
            shutil.rmtree(folder, ignore_errors=True)
            (Path(made) / "jars").replace(folder)
    except OSError as error:
        if not folder.is_dir() or _differing(folder):  # made by another start meanwhile
            raise UsageError(f"{folder}: {error.strerror}; make it writable, or set XDG_CACHE_HOME to a folder that is") from None
    return folder


def _fetch(java: str, work: Path) -> None:
    tell("fetching the Delta Lake jars, once (a few seconds, 13 MB) ...")
    spec = find_spec("pyspark")
    assert spec and spec.origin  # noqa: S101 - `require` has looked
    mirror = os.environ.get("REPLICA_AUDIT_MAVEN_MIRROR", "")
    from_mirror = ["-Dreplica.audit.resolver=mirror", f"-Dreplica.audit.mirror={mirror}"] if mirror else []
    ivy = [
        *(java, f"-Divy.default.ivy.user.dir={work}", *from_mirror, "-cp", f"{Path(spec.origin).parent}/jars/*", "org.apache.ivy.Main"),
        *("-warn", "-settings", str(shipped("conf/ivysettings.xml")), "-ivy", str(shipped("conf/ivy.xml")), "-cache", f"{work}/cache"),
        *("-retrieve", f"{work}/jars/[artifact]-[revision].[ext]"),
    ]
    done = subprocess.run(ivy, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)  # noqa: S603 - no shell
    wrong = _differing(work / "jars")
    if done.returncode or wrong:
        for line in wrong or (done.stdout + done.stderr).strip().splitlines()[-5:]:
            tell(f"  {line}")
        raise UsageError(
            f"the Delta Lake jars that this version was tested with could not be fetched from {mirror or 'Maven Central'}; "
            f"set REPLICA_AUDIT_MAVEN_MIRROR to a mirror of it, or {_OFFLINE} to a folder that holds them"
        )


def _differing(folder: Path) -> list[str]:
    """What is wrong with the jars of a folder, a line each."""
    checks = [sys.executable, "-I", str(shipped("tools/jar_checks.py")), str(folder), str(shipped("conf/ivy.sha256"))]
    return subprocess.run(checks, capture_output=True, text=True, check=False).stdout.splitlines()  # noqa: S603 - our own script
