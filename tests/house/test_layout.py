"""The project's own shape: folders, jobs, versions that must agree, and what no file may say."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.house.checkout import ROOT, project_files

JOBS = sorted((ROOT / "jobs").glob("*.py"))
MOST_LINES = 600  # of a module
# In pieces, for this file is looked at, too.
FORBIDDEN = [
    *(
        b".".join(parts)
        for parts in [(b"pypi", b"org"), (b"pythonhosted", b"org"), (b"maven", b"org"), (b"maven", b"apache", b"org/maven2")]
    ),
    *(b"/" + folder + b"/" for folder in (b"work", b"root")),
]


def setup() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser()
    parsed.read(ROOT / "setup.cfg")
    return parsed


def requirements() -> list[str]:
    options = setup()
    lists = [options["options"]["install_requires"], *options["options.extras_require"].values()]
    return [line for lines in lists for line in lines.split("\n") if line]


def constraints() -> dict[str, str]:
    lines = (ROOT / "conf/constraints.txt").read_text().splitlines()
    return {canonical(name): version for name, version in (line.split("==") for line in lines if not line.startswith("#"))}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


IVY = [path for path in project_files() if path.name.startswith("ivy") and path.suffix == ".xml" and path.name != "ivysettings.xml"]


@pytest.mark.parametrize("ivy", IVY, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_jar_is_listed_with_its_digest(ivy: Path) -> None:
    named = re.findall(r'<dependency .* name="([^"]*)" rev="([^"]*)"', ivy.read_text())
    listed = [line.split() for line in ivy.with_suffix(".sha256").read_text().splitlines()]
    assert sorted(name for _digest, name in listed) == sorted(f"{name}-{version}.jar" for name, version in named)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest, _name in listed)


def locked(name: str) -> dict[str, tuple[str, str, int]]:
    """Each requirement of a file of conf/requirements: version, marker, number of hashes."""
    text = (ROOT / f"conf/requirements/{name}.txt").read_text().replace(" \\\n", " ")
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            required, *hashes = line.split(" --hash=")
            package, _, marker = required.partition(" ; ")
            assert all(re.fullmatch("sha256:[0-9a-f]{64}", digest.strip()) for digest in hashes)
            found[canonical(package.split("==")[0])] = (package.split("==")[1].strip(), marker.strip(), len(hashes))
    return found


def test_every_package_is_listed_with_its_hashes() -> None:
    extras, run, build = (locked(name) for name in ("extras", "run", "build"))
    assert all(count for _version, _marker, count in [*extras.values(), *run.values(), *build.values()])
    # pip's list is that of one platform: what only others need has a marker that says so
    everywhere = {name: version for name, (version, marker, _count) in (extras | build).items() if "sys_platform == " not in marker}
    assert everywhere == constraints()
    assert set(build) == {"setuptools"}
    assert run.items() <= extras.items()
    needed = {canonical(re.split(r"[<>=]", line)[0]) for line in setup()["options"]["install_requires"].split("\n") if line}
    assert needed <= set(run)


@pytest.mark.parametrize("job", JOBS, ids=[job.stem for job in JOBS])
def test_a_job_only_hands_over(job: Path) -> None:
    lines = job.read_text().splitlines()
    assert len(lines) <= 30
    assert re.fullmatch(r'""".+[.]"""', lines[0]), "the launcher lists the first line"
    assert re.search(r"^# runs-on: (spark|driver)$", job.read_text(), re.MULTILINE)
    names = {node.module for node in ast.walk(ast.parse(job.read_text())) if isinstance(node, ast.ImportFrom)}
    assert names == {"replica_audit.cli"}


def test_every_requirement_has_an_exact_version() -> None:
    exact = constraints()
    assert exact
    missing = [line for line in requirements() if canonical(re.split(r"[\[<>=~! ]", line)[0]) not in exact]
    assert not missing


def test_jars_fit_the_python_packages() -> None:
    exact = constraints()
    spark = ".".join(exact["pyspark"].split(".")[:2])
    ivy = (ROOT / "conf/ivy.xml").read_text()
    assert f'name="delta-spark_{spark}_2.13" rev="{exact["delta-spark"]}"' in ivy
    assert set(re.findall(r'name="delta-[^"]*" rev="([^"]*)"', ivy)) == {exact["delta-spark"]}


def test_the_connector_to_s3_is_that_of_sparks_hadoop() -> None:
    spark = Path(pyspark.__file__).parent / "jars"
    named = dict(re.findall(r'name="([^"]*)" rev="([^"]*)"', (ROOT / "conf/ivy-s3.xml").read_text()))
    assert (spark / f"hadoop-client-api-{named['hadoop-aws']}.jar").is_file()
    bundled = {path.name.rpartition("-")[0] for path in spark.glob("*.jar")}
    assert not named.keys() & bundled, "two versions of one jar"


def test_no_file_names_a_registry_or_a_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {text.decode()}"
        for path in project_files()
        for text in FORBIDDEN
        if text in path.read_bytes().replace(b"/proc/1/root/", b"")
    ]
    assert not found


def test_the_help_of_a_command_loads_nothing_large() -> None:
    code = "import sys; from replica_audit import cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "lib")})
    names = set(loaded.stdout.split())
    assert "replica_audit.commands.audit" in names
    assert not {"replica_audit.rows", "deltalake", "jinja2", "numpy", "pandas", "pyarrow", "pydantic", "pyspark", "rich", "urllib3"} & names


def test_a_module_is_no_longer_than_can_be_read_at_once() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "lib").rglob("*.py")}
    assert len(lengths) > 200
    assert not {path: length for path, length in lengths.items() if length > MOST_LINES}


def test_a_class_name_is_unique_in_its_room() -> None:
    """A private class belongs to its module alone."""
    found: dict[tuple[Path, str], list[str]] = {}
    for path in sorted((ROOT / "lib").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault((path.parent, node.name), []).append(str(path.relative_to(ROOT)))
    assert len(found) > 200
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}
