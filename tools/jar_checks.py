"""Compares the jars of a folder with a list of SHA-256: jar_checks.py FOLDER LIST. Prints what differs; exit code 1 if anything does."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def differing(folder: Path, listed: str) -> list[str]:
    """What is wrong with each jar.

    Args:
        folder: holds them, and no other jars.
        listed: a line for each: its SHA-256, a blank or two, its name.
    """
    wanted = {name: digest for digest, name in (line.split() for line in listed.splitlines())}
    wrong = []
    for name, digest in wanted.items():
        path = folder / name
        if not path.is_file():
            wrong.append(f"{name}: is not there")
            continue
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != digest:
            wrong.append(f"{name}: SHA-256 {found} ({path.stat().st_size} bytes), expected {digest}")
    return wrong + [f"{path.name}: belongs to nothing" for path in sorted(folder.glob("*.jar")) if path.name not in wanted]


def main(folder: str, listed: str) -> int:
    """Print what differs."""
    wrong = differing(Path(folder), Path(listed).read_text(encoding="utf-8"))
    for line in wrong:
        print(line)  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
