"""Every command that a document shows is run: here as it stands, in the order of the pages, or by the test that is named."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "README.md"]
SAMPLE = ROOT / "tests" / "data" / "sample" / "committed-loss"

# what is run here: exit code, and a part of the output
HERE = {
    "./spark-submit.sh audit": (1, "Findings, the worst 20 of"),
    "./spark-submit.sh audit --input /backup/brokers": (1, "critical: committed_loss"),
    "./spark-submit.sh audit --what-if-leaders": (1, "If another replica led"),
    "./spark-submit.sh triage --input /backup/brokers": (1, "critical: committed_loss"),
    "./spark-submit.sh triage --input /backup/brokers --partition billing-0": (1, "The exchange"),
    "./spark-submit.sh triage --input /backup/brokers --salvage saved": (
        1,
        "Saved 42 records of 3 cuts in 3 partitions, 42 for a replay.",
    ),
    "./spark-submit.sh salvage --local --cluster tGgMi5ChQQaP400G_KG93g --output saved-here": (0, "Saved 42 records of 3 cuts"),
    "./spark-submit.sh salvage --cluster tGgMi5ChQQaP400G_KG93g --output saved-on-spark": (0, "Saved 42 records of 3 cuts"),
    "./spark-submit.sh triage --input /backup/brokers --html triage.html": (1, "critical: committed_loss"),
    "./spark-submit.sh triage --input /backup/brokers --plan plan": (1, "critical: committed_loss"),
    "./spark-submit.sh plan --output recovery": (0, "PLAN.md"),
    "./spark-submit.sh plan --cluster tGgMi5ChQQaP400G_KG93g --gone 1 --output plan-without-1": (0, "PLAN.md"),
    "./spark-submit.sh salvage --local --cluster tGgMi5ChQQaP400G_KG93g --gone 1 --output saved-without-1": (
        0,
        "Saved 42 records of 3 cuts",
    ),
    "./spark-submit.sh report --output report.html": (0, "report.html"),
    "./spark-submit.sh explain --partition billing-0": (0, "The exchange"),
    "./spark-submit.sh collect --log-dir /var/lib/kafka/data --output /backup/brokers": (0, "collected 7 segments"),
    "./spark-submit.sh report --format text": (0, "Findings, the worst 20 of"),
    "./spark-submit.sh explain --partition billing-0 --follower 1": (0, "follower 1 of leader 2"),
    "./spark-submit.sh audit --input /backup/brokers --warehouse /srv/audits --fail-on critical "
    "--json /srv/audits/last.json --html /srv/audits/last.html --metrics /srv/audits/kafka-replica-audit.prom": (
        1,
        "critical: committed_loss",
    ),
    "./spark-submit.sh report --warehouse /srv/audits --output /srv/audits/again.html": (0, "again.html"),
    "./spark-submit.sh maintain --dry-run": (0, "Nothing was changed"),
    "./spark-submit.sh maintain --warehouse /srv/audits --dry-run": (0, "Nothing was changed"),
    "./spark-submit.sh maintain --warehouse /srv/audits --restore --dry-run": (0, "every table is whole, and no complete run lacks rows"),
    "./spark-submit.sh maintain --warehouse /srv/audits": (0, "0 runs and 0 rows deleted, 0 files removed"),
    "benchmarks/run --help": (0, "usage"),
    ".venv/bin/python benchmarks/ingest.py --help": (0, "usage"),
    ".venv/bin/python benchmarks/report_page.py --help": (0, "usage"),
    ".venv/bin/python benchmarks/clusters.py --help": (0, "usage"),
    ".venv/bin/python benchmarks/audit.py --help": (0, "usage"),
}
# what other tests run, with other paths: the beginning of the command, the test, and a part of its text
ELSEWHERE = {
    "start.md": ("replica-audit triage", "tests/docs/test_outputs.py", "docs/start.md"),
    "unclean-election.md": ("", "tests/docs/test_outputs.py", '"incidents"'),
    "lost-disk.md": ("", "tests/docs/test_outputs.py", '"incidents"'),
    "offline-partition.md": ("", "tests/docs/test_outputs.py", '"incidents"'),
    "skipped-records.md": ("", "tests/docs/test_outputs.py", '"incidents"'),
    "before-a-restart.md": ("", "tests/docs/test_outputs.py", '"incidents"'),
    "replicas-disagree.md": ("", "tests/docs/test_outputs.py", '"incidents"'),
    "installing.md": ("replica-audit ", "tests/house/test_installed.py", "docs/installing.md"),
    "collecting.md": ("./spark-submit.sh", "tests/collect/test_docs_collecting.py", "collecting.md"),
    "deployment.md": ("", "tests/cluster_mode/test_standalone.py", "--master"),
    "describing-a-cluster.md": ("./spark-submit.sh describe_cluster", "tests/describe/test_live_brokers.py", "--verify"),
    "notebooks.md": ("", "tests/notebooks/test_notebooks.py", "execution"),
    "verification.md": (".venv/bin/python -m tests.kafka_lab", "tests/live/test_lab.py", "kafka_lab"),
    "CONTRIBUTING.md": ("tests/", ".ci/run", "tests/run.sh"),
}
# minutes of work each, and what they print is in the page itself
MEASUREMENTS = re.compile(r"(benchmarks/run|\.venv/bin/python benchmarks/\w+\.py)( .*)?")


def commands(document: Path) -> Iterator[str]:
    for block in re.findall(r"```sh\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            command = " ".join(re.sub(r"(^|\s+)#.*", "", line).split())
            if command:
                yield command


def test_no_command_is_run_by_nothing() -> None:
    for document, command in [(page, command) for page in DOCUMENTS for command in commands(page)]:
        beginning, test, part = ELSEWHERE.get(document.name, ("nothing begins so", "", ""))
        if command in HERE or (document.parent.name == "benchmarks" and MEASUREMENTS.fullmatch(command)):
            continue
        assert command.startswith(beginning), f"{document.name}: nothing runs {command}"
        assert part in (ROOT / test).read_text(encoding="utf-8")


def test_nothing_is_run_that_no_document_shows() -> None:
    shown = {command for document in DOCUMENTS for command in commands(document)}
    assert not HERE.keys() - shown


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.spark
def test_the_commands_work_in_their_order(tmp_path: Path) -> None:
    places = {"/backup/brokers": tmp_path / "backup", "/srv/audits": tmp_path / "audits", "/var/lib/kafka/data": tmp_path / "live" / "data"}
    shutil.copytree(SAMPLE, places["/backup/brokers"])
    shutil.copytree(SAMPLE / "broker-1" / "data-0", places["/var/lib/kafka/data"])
    places["/srv/audits"].mkdir()
    shown = [command for document in DOCUMENTS for command in commands(document) if command in HERE]
    # the copy of the broker that is collected here is in the backup already
    ordered = [command for command in dict.fromkeys(shown) if "collect" not in command] + [c for c in shown if "collect" in c]
    for command in ordered:
        code, said = HERE[command]
        words = [str(places.get(word, word)) for word in shlex.split(command)]
        for place, real in places.items():
            words = [word.replace(place, str(real)) for word in words]
        words = [*(str(ROOT / words[0]),), *(str(ROOT / word) if word.startswith("benchmarks/") else word for word in words[1:])]
        if "collect" in command:
            shutil.rmtree(places["/backup/brokers"])
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL, check=False)
        told = done.stdout + done.stderr
        assert done.returncode == code, f"{command}: {told}"
        assert said in told, f"{command}: {told}"
    assert "<svg" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (places["/srv/audits"] / "last.json").exists()
    assert 'verdict="committed_loss"} 3.0' in (places["/srv/audits"] / "kafka-replica-audit.prom").read_text(encoding="utf-8")
    pages = [(places["/srv/audits"] / name).read_text(encoding="utf-8") for name in ("last.html", "again.html")]
    assert pages[0] == pages[1]
