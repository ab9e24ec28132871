"""Builds the collector for brokers, one file with all that `collect` needs but Python itself.

    .venv/bin/python tools/collector.py [FILE]        default: dist/replica-audit-collect.pyz

In it are the modules that `collect` imports and the packages of the environment that runs this, whose hashes were checked when they were
installed. Packages are in part machine code: the file serves the Python (3.11, say) and the kind of machine that it was built with. Built
twice from the same files, it is the same bytes. No network is needed, neither here nor where it runs.
"""

from __future__ import annotations

import ast
import fnmatch
import hashlib
import json
import sys
import sysconfig
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from replica_audit.collect.previous import ROOMS

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "lib"
FILE = ROOT / "dist" / "replica-audit-collect.pyz"
PACKAGES = ("crc32c", "numpy", "psutil", "pyarrow", "xxhash")
_ELSEWHERE = "replica_audit.notebook"  # what only notebooks ask the package for
# patterns of what packages bring along and nothing here loads
_UNUSED = (
    *(f"*/{folder}/*" for folder in ("__pycache__", "tests", "include", "src", "f2py", "distutils")),
    *(f"*.{kind}" for kind in ("pyx", "pxd", "pxi", "pyi", "c", "h", "cmake", "a")),
    *("*/RECORD", "*/INSTALLER", "*/REQUESTED", "*/direct_url.json", "../*"),
    *(f"pyarrow/*{part}*" for part in ("flight", "_orc", "gandiva", "cuda", "_cpp_tests", "encryption", "feather")),
    *("pyarrow/_dataset*", "pyarrow/_substrait*", "pyarrow/libarrow_python.so", "pyarrow/lib*.so.*.*.*"),
)


def modules() -> list[Path]:
    """The files of the package that the collector imports, at its start or later, below lib/; of what reads segments all files.

    A later collection takes rows over only from the same reading code, whether of this file or of a checkout.
    """
    found: dict[str, Path] = {}
    waiting = ["replica_audit.collector"]
    for path in LIBRARY.glob("replica_audit/**/*.py"):
        if path.relative_to(LIBRARY / "replica_audit").parts[0].removesuffix(".py") in ROOMS:
            waiting.append(".".join(path.relative_to(LIBRARY).with_suffix("").parts).removesuffix(".__init__"))
    while waiting:
        name = waiting.pop()
        if name in found or name.startswith(_ELSEWHERE):
            continue
        path = LIBRARY / name.replace(".", "/")
        # a folder that an earlier version left behind may have the name of a module
        path = package if (package := path / "__init__.py").is_file() else path.with_suffix(".py")
        if not path.is_file():
            continue  # a name within a module
        found[name] = path
        waiting.append(name.rpartition(".")[0])
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("replica_audit"):
                waiting += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    return sorted(path.relative_to(LIBRARY) for path in found.values())


def files() -> dict[str, bytes]:
    """What is unpacked: contents by path."""
    found = {str(path): (LIBRARY / path).read_bytes() for path in modules()}
    for name in PACKAGES:
        package = distribution(name)
        if not package.files:
            raise SystemExit(f"{name} has no list of its files: install it with pip")
        for file in package.files:
            if not any(fnmatch.fnmatch(str(file), pattern) for pattern in _UNUSED):
                found[str(file)] = Path(str(package.locate_file(file))).read_bytes()
    return found


def write(target: Path) -> None:
    """Write the file."""
    content = files()
    digest = hashlib.sha256(repr([(name, hashlib.sha256(content[name]).digest()) for name in sorted(content)]).encode()).hexdigest()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    made_for = {"python": version, "abi": sysconfig.get_config_var("SOABI"), "digest": digest[:12]}
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as stream:
        stream.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            entries = {"__main__.py": (ROOT / "tools/collector_start.py").read_bytes(), "made-for.json": json.dumps(made_for).encode()}
            for name, text in {**entries, **{f"site/{name}": content[name] for name in sorted(content)}}.items():
                archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED, 6)  # without a time
    target.chmod(0o755)


if __name__ == "__main__":
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        raise SystemExit(__doc__)
    made = Path(sys.argv[1]) if len(sys.argv) == 2 else FILE
    write(made)
    sys.stdout.write(f"{made}: {made.stat().st_size / 1e6:.1f} MB\n")
