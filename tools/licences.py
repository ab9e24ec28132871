"""Prints the licences of the packages of conf/requirements/run.txt as a table: what is under *Licences* in docs/dependencies.md.

    .venv/bin/python tools/licences.py

Each licence is the one that the installed package's metadata declares: the expression (PEP 639), else the classifiers, else the field
`License`. A package that declares none, or is not there in the listed version, ends it with exit code 1.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[1] / "conf" / "requirements" / "run.txt"


def declared(name: str) -> str:
    """The licence of an installed package, in the words of its metadata; empty if it declares none."""
    found = metadata(name)
    expression = found.get("License-Expression", "")
    classifiers = [line.rpartition(" :: ")[2] for line in found.get_all("Classifier", []) if line.startswith("License :: ")]
    field = found.get("License", "").strip().partition("\n")[0]
    return str(expression or "; ".join(line for line in classifiers if line != "OSI Approved") or field)


def main() -> int:
    """Print the table; what cannot be listed goes to stderr."""
    packages = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE)
    rows, missing = [], []
    for name, version in packages:
        try:
            installed, licence = metadata(name)["Version"], declared(name)
        except PackageNotFoundError:
            missing.append(f"{name} is not installed")
            continue
        if installed != version:
            missing.append(f"{name} {installed} is installed, {version} is listed")
        elif not licence:
            missing.append(f"{name} declares no licence")
        rows.append(f"| `{name}` | {version} | {licence} |")
    sys.stdout.write("\n".join(["| package | version | licence |", "|---|---|---|", *rows, ""]))
    sys.stderr.write("".join(f"{line}\n" for line in missing))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
