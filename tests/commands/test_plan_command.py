"""The command `plan`, and `triage --plan`: on real clusters, in this process."""

from __future__ import annotations

import csv
import json
import re
import shutil
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import unquote

import pytest

from replica_audit import cli, open_warehouse
from tests.formats.rights import bound_by_modes
from tests.support.warehouse import write_warehouse

DATA = Path(__file__).resolve().parents[1] / "data"
LOSS, CLEAN, OFFLINE = DATA / "sample" / "committed-loss", DATA / "sample" / "clean-in-sync", DATA / "offline" / "nobody-leads"


def test_the_plan_of_a_run_in_a_warehouse_is_that_of_triage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_warehouse(tmp_path / "warehouse", LOSS)
    assert cli.main(["plan", "--warehouse", str(tmp_path / "warehouse"), "--output", str(tmp_path / "plan")]) == 0
    assert "2 steps, 0 refused" in capsys.readouterr().err
    assert cli.main(["triage", "--input", str(LOSS), "--plan", str(tmp_path / "now")]) == 1
    made = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "plan").iterdir()}
    now = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "now").iterdir()}
    assert made.keys() == now.keys()
    assert {name for name in made if made[name] != now[name]} == {"PLAN.md"}, "which names the run"
    assert next(csv.reader(made["reset-bill-classic.csv"].splitlines()))[0] == "billing"
    assert "truncated since it was copied" in made["PLAN.md"]


def test_a_clean_cluster_has_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["triage", "--input", str(CLEAN), "--plan", str(tmp_path / "plan")]) == 0
    assert [path.name for path in (tmp_path / "plan").iterdir()] == ["PLAN.md"]
    assert "the plan is empty" in (tmp_path / "plan" / "PLAN.md").read_text(encoding="utf-8")
    assert "no step, 0 refused" in capsys.readouterr().err


def test_a_plan_begins_with_what_the_summary_says_of_the_brokers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stuck = DATA / "sample" / "kafka-1.1.1-kip279-scenario-1-all"
    assert cli.main(["triage", "--input", str(stuck), "--plan", str(tmp_path / "plan")]) == 1
    said = capsys.readouterr().out.split("\n\n")[0].strip().split("\n")[1:]
    text = (tmp_path / "plan" / "PLAN.md").read_text(encoding="utf-8")
    block = text.split("```text\n")[1].split("```")[0]
    assert "REPAIR FIRST: 3 followers" in block
    assert block == "".join(f"{line.removeprefix('  ')}\n" for line in said)
    assert text.index("```text") < text.index("## The steps in short") < text.index("## Step 1")


def test_what_was_truncated_since_is_kept_and_nobody_says_that_there_is_nothing_to_do(tmp_path: Path) -> None:
    elected = DATA / "sample" / "elr-election"
    assert cli.main(["triage", "--input", str(elected), "--plan", str(tmp_path / "plan")]) == 1
    text = (tmp_path / "plan" / "PLAN.md").read_text(encoding="utf-8")
    assert "## Step 1: Save the records that only the audited copy of broker 1 holds" in text
    assert "There is nothing to do" not in text


def test_several_clusters_have_a_folder_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["triage", "--input", str(LOSS), "--input", str(OFFLINE)]
    assert cli.main([*given, "--plan", str(tmp_path / "plan")]) == 1
    folders = sorted(path.name for path in (tmp_path / "plan").iterdir())
    assert len(folders) == 2
    assert all((tmp_path / "plan" / name / "PLAN.md").is_file() for name in folders)
    assert cli.main([*given, "--plan", str(tmp_path / "one"), "--cluster", folders[0]]) == 1
    assert (tmp_path / "one" / "PLAN.md").is_file()
    capsys.readouterr()
    assert cli.main([*given, "--plan", str(tmp_path / "none"), "--cluster", "nope"]) == 2
    assert "has no such cluster" in capsys.readouterr().err


def test_a_folder_that_is_not_empty_is_refused_before_anything_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "PLAN.md").write_text("mine")
    for given in (["plan", "--warehouse", str(tmp_path / "no"), "--output"], ["triage", "--input", str(LOSS), "--plan"]):
        assert cli.main([*given, str(tmp_path / "plan")]) == 2
        assert "is not empty" in capsys.readouterr().err
    assert (tmp_path / "plan" / "PLAN.md").read_text() == "mine"


def test_a_folder_in_which_every_user_may_rename_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    for given in (shared, shared / "plan"):
        assert cli.main(["triage", "--input", str(LOSS), "--plan", str(given)]) == 2
        assert "every user may write to it" in capsys.readouterr().err
    shared.chmod(0o1777)
    assert cli.main(["triage", "--input", str(LOSS), "--plan", str(shared / "plan")]) == 1


def test_the_place_in_the_assignment_and_min_isr_are_kept(tmp_path: Path) -> None:
    """An unclean election takes the first of the assignment that runs: the order is that of the metadata, not of ids."""
    root = tmp_path / "cluster"
    shutil.copytree(OFFLINE, root)
    file = root / "cluster-metadata.json"
    metadata = json.loads(file.read_text(encoding="utf-8"))
    for topic in metadata["topics"]:
        for partition in topic["partitions"]:
            partition["replicas"] = sorted(partition["replicas"], reverse=True)
    file.write_text(json.dumps(metadata), encoding="utf-8")
    write_warehouse(tmp_path / "warehouse", root)
    roles = open_warehouse(str(tmp_path / "warehouse")).latest().roles().dropna(subset=["position"])
    for _key, own in roles.groupby(["topic", "partition"]):
        assert list(own.sort_values("position")["broker_id"]) == sorted(own["broker_id"], reverse=True)
    configs = {topic["topic"]: topic["configs"] for topic in metadata["topics"]}
    assert any(configs.values())
    for role in roles.itertuples():
        assert str(role.min_insync_replicas) == configs[role.topic]["min.insync.replicas"]
        assert str(role.unclean_leader_election).lower() == configs[role.topic]["unclean.leader.election.enable"]


def test_summary_and_page_begin_with_brokers_and_what_to_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert cli.main(["triage", "--input", str(LOSS), "--html", str(page)]) == 1
    said = capsys.readouterr().out.strip()
    assert said.startswith("Brokers\n") and said.partition("\n\n")[2].startswith("What to decide, worst first\n")
    assert "Committed records of 3 partitions are already truncated" in " ".join(said.split())
    assert page.read_text(encoding="utf-8").index("What to decide") < page.read_text(encoding="utf-8").index("<main")
    assert cli.main(["triage", "--input", str(CLEAN), "--html", str(page)]) == 0
    assert "What to decide" not in capsys.readouterr().out + page.read_text(encoding="utf-8")


def test_explain_begins_with_what_to_do_about_its_partition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for root, clean in ((LOSS, False), (CLEAN, True)):
        warehouse = tmp_path / root.name
        write_warehouse(warehouse, root)
        topic, partition = sorted(_partitions(root))[0]
        assert cli.main(["explain", "--warehouse", str(warehouse), "--partition", f"{topic}-{partition}"]) == 0
        said = capsys.readouterr().out
        assert said.startswith(f"What to do\n  {'Nothing: no step of the plan is about' if clean else 'step 1  Keep the audited copy'}")
        others = {f"{name}-{number}" for name, number in _partitions(root)} - {f"{topic}-{partition}"}
        assert not [name for name in others if name in said.split("=" * 20)[0]], "only what concerns this partition"


def _partitions(root: Path) -> set[tuple[str, int]]:
    found = json.loads((root / "cluster-metadata.json").read_text(encoding="utf-8"))["topics"]
    return {(topic["topic"], one["partition"]) for topic in found if not topic["topic"].startswith("__") for one in topic["partitions"]}


def test_what_the_page_says_to_decide_links_to_its_evidence(tmp_path: Path) -> None:
    page, told = tmp_path / "page.html", tmp_path / "run.json"
    assert cli.main(["triage", "--input", str(LOSS), "--html", str(page), "--json", str(told)]) == 1
    made = json.loads(told.read_text(encoding="utf-8"))["decisions"]
    assert all(one["text"] and one["urgency"] for one in made)
    text = page.read_text(encoding="utf-8")
    head = text.partition('<ul class="decisions">')[2].partition("</ul>")[0]
    links = re.findall(r'href="#([^"]+)"', head)
    assert links
    assert all(f'id="{unquote(link)}"' in text for link in links), "every link leads somewhere"
    assert "#groups" in [f"#{link}" for link in links]


def test_a_broker_that_is_gone_is_planned_without_and_salvaged_from_its_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_warehouse(tmp_path / "warehouse", OFFLINE)
    given = ["plan", "--warehouse", str(tmp_path / "warehouse"), "--output"]
    assert cli.main([*given, str(tmp_path / "plan"), "--gone", "2"]) == 0
    text = (tmp_path / "plan" / "PLAN.md").read_text(encoding="utf-8")
    assert "broker 2 is gone for good (--gone)" in text
    assert not re.search(r"^# start broker 2 on its host, unless", text, re.MULTILINE)
    capsys.readouterr()
    assert cli.main(["triage", "--input", str(OFFLINE), "--plan", str(tmp_path / "now"), "--gone", "2"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "Broker 2 is gone for good (--gone)" in told, "the summary advises as the plan does"
    assert "start broker 2" not in told and "election of broker 2" not in told
    made, now = (
        {path.name: path.read_text() for path in (tmp_path / name).iterdir() if path.name != "PLAN.md"} for name in ("plan", "now")
    )
    assert made == now
    saved = ["salvage", "--local", "--warehouse", str(tmp_path / "warehouse"), "--output", str(tmp_path / "saved")]
    assert cli.main([*saved, "--gone", "2"]) == 0
    capsys.readouterr()
    assert cli.main(saved) == 2, "another salvage: of a plan in which broker 2 comes back"
    assert str(tmp_path / "saved") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("root", "broker", "why"),
    [
        (LOSS, "2", "saw broker 2 running"),
        (OFFLINE, "9", "has no such broker; it has: 2, 3"),
        (OFFLINE, "x", "give the id of one broker"),
        (OFFLINE, "2,3", "give the id of one broker"),
    ],
)
def test_a_broker_that_cannot_be_gone_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], root: Path, broker: str, why: str
) -> None:
    with nullcontext() if broker.isdigit() else pytest.raises(SystemExit) as ended:
        code = cli.main(["triage", "--input", str(root), "--plan", str(tmp_path / "plan"), "--gone", broker])
    assert (code if ended is None else ended.value.code) == 2
    assert why in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "plan").exists()


def test_gone_is_of_one_cluster_and_of_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["triage", "--input", str(LOSS), "--input", str(OFFLINE), "--gone", "2"]
    assert cli.main(given) == 2
    assert "also give one of these" in capsys.readouterr().err
    assert cli.main([*given, "--plan", str(tmp_path / "plan")]) == 2
    assert "of which cluster?" in capsys.readouterr().err
    assert cli.main([*given, "--salvage", str(tmp_path / "saved")]) == 2
    assert "of which cluster?" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["its directory", "a segment"])
def test_a_replica_that_could_not_be_read_is_not_deleted(tmp_path: Path, what: str) -> None:
    """The broker reads it as another user: that the audit has no right to says nothing of the log."""
    root = tmp_path / "cluster"
    shutil.copytree(LOSS, root)
    replica = root / "broker-1" / "data-0" / "billing-0"
    refused = replica if what == "its directory" else next(replica.glob("*.log"))
    refused.chmod(0)
    code = bound_by_modes(lambda: cli.main(["triage", "--input", str(root), "--plan", str(tmp_path / "plan")]))
    refused.chmod(0o755)
    assert code == 1
    plan = " ".join((tmp_path / "plan" / "PLAN.md").read_text(encoding="utf-8").split())
    asked = {
        "its directory": "Wanted: the directory of `billing-0`, copied again with the .log files",
        "a segment": "or not to its end: the input problems say why",
    }
    assert asked[what] in plan
    assert not list((tmp_path / "plan").glob("reassign-*"))
