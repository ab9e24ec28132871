"""A checkout of this project's launcher in a folder of its own, with a search path that holds only what a test puts there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = [
    "awk",
    "bash",
    "cat",
    "chmod",
    "cksum",
    "dirname",
    "env",
    "grep",
    "head",
    "ls",
    "mkdir",
    "mv",
    "ps",
    "readlink",
    "rm",
    "sed",
    "sleep",
    "sort",
    "tail",
    "wc",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The copied project (`root`), an empty folder to start it from (`cwd`), and the only folder on PATH (`path`)."""

    root: Path
    cwd: Path
    path: Path

    @classmethod
    def make(cls, below: Path) -> Checkout:
        """A copy without environment, whose PATH has neither Java nor Python."""
        made = cls(root=below / "check out", cwd=below / "cwd", path=below / "bin")
        for folder in (made.root, made.cwd, made.path):
            folder.mkdir()
        for name in ("conf", "jobs", "tools"):
            shutil.copytree(ROOT / name, made.root / name)
        for name in ("setup.cfg", "spark-submit.sh"):
            shutil.copy2(ROOT / name, made.root / name)
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, tool
            (made.path / tool).symlink_to(found)
        return made

    def script(self, path: Path, *lines: str) -> Path:
        """Write an executable shell script."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["#!/bin/bash", *lines, ""]))
        path.chmod(0o755)
        return path

    def java(self, version: str, home: Path | None = None) -> Path:
        """A java that only tells its version, on PATH or in a home of its own."""
        where = home / "bin" / "java" if home else self.path / "java"
        return self.script(where, f"""echo 'openjdk version "{version}" 2026-01-01' >&2""")

    def job(self, name: str, *lines: str, runs_on: str = "spark") -> None:
        """A job of the copy's."""
        (self.root / "jobs" / f"{name}.py").write_text("\n".join([f'"""The job {name}."""', "", f"# runs-on: {runs_on}", *lines, ""]))

    def prepared(self) -> None:
        """Everything that a set-up would have made, as far as the launcher looks at it: stamp, jars, a Spark to start."""
        (self.root / ".venv/bin").mkdir(parents=True)
        (self.root / ".venv/lib/python3.11/site-packages/pyspark").mkdir(parents=True)
        (self.root / ".cache/jars").mkdir(parents=True)
        self.script(self.root / ".venv/bin/python", "exit 99")
        for jar in self.shell("jar_names").split():
            (self.root / ".cache/jars" / jar).write_text("jar")
        seen = self.shell('jars_seen "$JARS" "$ROOT/conf/ivy.sha256"')
        (self.root / ".cache/jars/.compared").write_text(seen + "\n")
        (self.root / ".venv/.replica-audit-installed").write_text(self.shell("packages_fingerprint") + "\n\n")

    def shell(self, function: str) -> str:
        """What a function of tools/environment.sh prints."""
        environment = shlex.quote(str(self.root / "tools/environment.sh"))
        done = subprocess.run(["bash", "-euc", f"source {environment}; {function}"], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def _classes_archived(self, environment: dict[str, str]) -> None:
        """The class archive of what is prepared counts as made, with the Java that this start finds; one of before stays as it is."""
        made_for = self.root / ".cache/classes.jsa.made-for"
        if (self.root / ".venv/.replica-audit-installed").is_file() and (self.root / ".cache").is_dir() and not made_for.exists():
            source = f"source {shlex.quote(str(self.root / 'tools/environment.sh'))}"
            shell = [str(self.path / "bash"), "-euc", f"{source}; environment_require_java; classes_fingerprint"]
            made_for.write_text(subprocess.run(shell, env=environment, capture_output=True, text=True, check=False).stdout)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start the launcher, in a process group of its own as a terminal would."""
        environment = {"PATH": str(self.path), "HOME": str(self.cwd), "LANG": "C.UTF-8", **variables}
        self._classes_archived(environment)
        return subprocess.Popen(
            [self.root / "spark-submit.sh", *arguments],
            cwd=self.cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, **variables: str) -> Ran:
        """Run the launcher to its end."""
        with self.start(*arguments, **variables) as process:
            out, err = process.communicate(timeout=1200)
        return Ran(code=process.returncode, out=out, err=err)

    def untouched(self) -> bool:
        """Whether nothing was set up, and nothing written where the launcher was started."""
        return not (self.root / ".venv").exists() and not (self.root / ".cache").exists() and not list(self.cwd.iterdir())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a run of the launcher ended."""

    code: int
    out: str
    err: str


def project_files() -> Iterator[Path]:
    """Every file that belongs to the project: what git tracks, or would."""
    assert (ROOT / ".git").exists(), "run the tests in a git checkout: nothing else tells which files are the project's"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        env=dict(os.environ),
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            yield ROOT / name
