"""The wheel, installed: one command, which needs for each of its parts what its extra brings, and says so in a sentence."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from replica_audit import cli, program
from replica_audit.commands import shell_files, spark_here
from replica_audit.config import Settings
from tests.house.checkout import ROOT
from tests.support.installed import Installation, build_wheel, install
from tests.support.warehouse import write_warehouse

LOSS = ROOT / "tests/data/sample/committed-loss"
PAGE = (ROOT / "docs/installing.md").read_text(encoding="utf-8")
pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Without an extra."""
    return install(wheel, tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def whole(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """With every extra."""
    return install(wheel, tmp_path_factory.mktemp("whole"), everything=True)


def shown_commands() -> list[list[str]]:
    """What docs/installing.md shows to be typed."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line.strip()]


def test_a_wheel_holds_the_package_and_what_its_commands_read(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        shipped = {name: archive.read(name) for name in names if "/shipped/" in name and not name.endswith("/")}
    assert {f"replica_audit/{path.relative_to(ROOT / 'lib/replica_audit')}" for path in (ROOT / "lib/replica_audit").rglob("*.py")} <= names
    assert {name.partition("/")[0] for name in names} == {"replica_audit", f"replica_audit-{program.VERSION}.dist-info"}
    for name, content in shipped.items():
        assert (ROOT / name.partition("/shipped/")[2]).read_bytes() == content
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests/data/sample").rglob("*") if path.is_file()}
    assert files <= {name.partition("/shipped/")[2] for name in shipped}


def test_the_base_has_neither_spark_nor_pandas(base: Installation) -> None:
    code = "import importlib.util as u; print([n for n in ('pyspark', 'delta', 'pandas', 'kafka', 'altair', 'pytest') if u.find_spec(n)])"
    assert base.run("-c", code, program="python").out == "[]\n"


def test_the_version_stands_once(base: Installation) -> None:
    ran = base.run("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"replica-audit {program.VERSION}\n", "")
    assert f"## [{program.VERSION}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_help_names_every_command_and_no_other_way_in(base: Installation) -> None:
    said = base.run().out
    assert base.run("--help").out == said
    for command in cli.COMMANDS:
        name = command.name.replace("_", "-")
        assert re.search(rf"^  {name} +{re.escape(command.summary)}$", said, re.MULTILINE)
        own = base.run(name, "--help")
        assert (own.code, own.out.split("\n")[0].split("[")[0].strip()) == (0, f"usage: replica-audit {name}")
        assert f"\n  replica-audit {name} " in own.out
        assert "spark-submit" not in own.out
    assert base.run("describe_cluster", "--help").out == base.run("describe-cluster", "--help").out


def test_without_arguments_triage_reads_the_sample(base: Installation, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = base.run("triage", "--html", page)
    assert ran.code == 1, ran.err
    assert "committed_loss" in ran.out
    assert str(base.packages) in ran.err, "it is the copy that came along"
    assert "replica-audit triage --input" in page.read_text(encoding="utf-8")


def test_the_base_collects_explains_reports_plans_and_saves(base: Installation, tmp_path: Path) -> None:
    data = tmp_path / "broker" / "data"
    shutil.copytree(LOSS / "broker-1" / "data-0", data)
    collected = base.run("collect", "--log-dir", data, "--output", tmp_path / "collected")
    assert (collected.code, collected.out) == (0, f"{tmp_path}/collected/broker-1\n")
    warehouse = ["--warehouse", str(write_warehouse(tmp_path / "warehouse", LOSS, settings=Settings()))]
    text = base.run("report", "--format", "text", *warehouse)
    (explain,) = re.findall(r"^  replica-audit (explain .*)$", text.out, re.MULTILINE)
    assert "The exchange" in base.run(*shlex.split(explain)).out
    assert base.run("report", *warehouse, "--output", tmp_path / "report.html").code == 0
    assert base.run("plan", *warehouse, "--output", tmp_path / "plan").code == 0
    assert base.run("salvage", "--local", *warehouse, "--output", tmp_path / "saved").code == 0


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["audit"], "audit needs pyspark, which is not installed: pip install 'replica-audit[spark]'"),
        (
            ["describe-cluster", "--bootstrap-server", "localhost:1"],
            "needs kafka-python, which is not installed: pip install 'replica-audit[cluster]'",
        ),
    ],
    ids=["spark", "cluster"],
)
def test_a_missing_extra_is_a_sentence(base: Installation, command: list[str], says: str) -> None:
    ran = base.run(*command)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("error: ")
    assert says in ran.err
    assert not list(base.cwd.glob("warehouse*"))


def test_a_notebook_is_told_of_its_extra(base: Installation) -> None:
    ran = base.run("-c", "import replica_audit; replica_audit.triage", program="python")
    assert ran.err.splitlines()[-1].endswith(
        "replica_audit.triage needs altair, which is not installed: pip install 'replica-audit[notebook]'"
    )
    assert "ModuleNotFoundError" not in ran.err


def test_what_a_run_would_cost_needs_no_spark(base: Installation) -> None:
    assert base.run("audit", "--cost").code == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["tirage"], "no command tirage; did you mean triage?"),
        (["--input", "x"], "unknown option --input; a command's options come after its name"),
        (["completion"], "give one of bash, zsh, fish"),
        (["man", "1"], "give no more"),
        (["audit", "--input", "/nowhere"], "/nowhere"),
    ],
)
def test_wrong_usage_is_refused(whole: Installation, given: list[str], says: str) -> None:
    ran = whole.run(*given)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


class TestBeforeSparkStarts:
    def test_java_is_looked_for(self, whole: Installation, tmp_path: Path) -> None:
        (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.1\"' >&2\n")
        (tmp_path / "java").chmod(0o755)
        ran = whole.run("audit", PATH=str(tmp_path), JAVA_HOME="/nowhere")
        assert ran.code == 2
        expected = (
            f"error: a Java 17 or newer runtime is needed; found: /nowhere/bin/java, which cannot be started; Java 11 ({tmp_path}/java); "
        )
        assert ran.err == expected + "`replica-audit triage` answers without Java\n"

    def test_a_cluster_is_for_the_launcher(self, whole: Installation) -> None:
        ran = whole.run("audit", SPARK_MASTER="spark://host:7077")
        assert ran.err == (
            "error: SPARK_MASTER=spark://host:7077: replica-audit runs Spark on this machine only; for a cluster, start ./spark-submit.sh "
            "of a checkout\n"
        )

    def test_other_jars_are_refused(self, whole: Installation, tmp_path: Path) -> None:
        (tmp_path / "delta-storage-4.4.0.jar").write_text("no jar")
        java = shutil.which("java")
        assert java
        ran = whole.run("audit", REPLICA_AUDIT_JARS=str(tmp_path), PATH=f"{Path(java).parent}:/usr/bin:/bin")
        assert ran.code == 2
        assert ran.err.startswith(f"error: REPLICA_AUDIT_JARS={tmp_path}: delta-")

    def test_its_settings_are_the_launchers(self) -> None:
        launcher = (ROOT / "tools/environment.sh").read_text(encoding="utf-8")
        assert f'JVM_FLAGS="{spark_here._JVM_FLAGS}"' in launcher
        assert f"JAVA_MINIMUM={spark_here._OLDEST_JAVA}\n" in launcher
        for word in spark_here.flags("audit", "local[*]", Path("jars")):
            if word.startswith("--") or word.startswith("spark."):
                assert word.partition("=")[0] in launcher, word


def test_a_job_says_what_its_command_says_and_runs_where_it_runs() -> None:
    for command in cli.COMMANDS:
        job = (ROOT / f"jobs/{command.name}.py").read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(job)) == command.summary
        assert ("# runs-on: spark" in job) == command.may_need_spark([])
        assert ("# takes: --spark" in job) == (not command.may_need_spark([]) and command.may_need_spark(["--spark"]))


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tri", {"triage"}),
        ("audit --run-", {"--run-id", "--run-date"}),
        ("collect --no-", {"--no-verify-crc", "--no-batch-index"}),
        ("report --format ", {"html", "text", "json"}),
        ("audit --config conf/ac", {"conf/acknowledged.yaml"}),
        ("audit --input do", {"docs"}),
    ],
)
def test_bash_completes(line: str, offered: set[str]) -> None:
    words = ["replica-audit", *line.split(" ")]
    script = f"{shell_files.completion(cli.COMMANDS, 'bash')}\nCOMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1}\n"
    script += '_replica_audit 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == offered


def test_fish_and_the_manual_know_every_option(base: Installation) -> None:
    fish, manual = base.run("completion", "fish").out, base.run("man").out
    for command in cli.COMMANDS:
        for option in command.options:
            assert f" -l {option.flag[2:]} " in fish
            assert f"\\fB{option.flag}\\fR".replace("-", "\\-") in manual
    assert base.run("completion", "zsh").out.endswith(base.run("completion", "bash").out)


def test_the_page_shows_commands_that_there_are() -> None:
    shown = shown_commands()
    assert ["replica-audit", "triage"] in shown
    assert ["replica-audit", "audit"] in shown
    for name, command, *arguments in shown:
        assert name == "replica-audit"
        if command not in ("--version", "man", "completion"):
            cli.parser(next(one for one in cli.COMMANDS if one.name == command.replace("-", "_"))).parse_args(arguments)
