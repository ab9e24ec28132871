"""A broker whose disk is lost for good after an outage: `plan --gone` is run as it is printed, and what is lost is what it said."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from replica_audit import cli
from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.console import say
from tests.kafka_lab.files import batches, replica_directories
from tests.kafka_lab.load import delete_topics
from tests.kafka_lab.snapshot import copy_all
from tests.live.outage import LEDGER, OFFSETS, ORDERS, PARTITIONS, by_the_files, outage, planned_truncations, read_all
from tests.live.plan_steps import Operator, tools
from tests.salvage.made import rows as records

pytestmark = [pytest.mark.live, pytest.mark.slow]
_GONE = 3
_LOSES = re.compile(r"^## Step \d+: .*?loses (\d+) records?", re.MULTILINE)
_CROSSED = re.compile(r"^- elect broker \d+ for (.*?): .* it leads by itself, and that loses (\d+) records?", re.MULTILINE)


def _values(root: Path, brokers: tuple[int, ...]) -> Counter[int]:
    """How many records each partition has in any of the brokers' directories; those of one batch are of one leader, and count once."""
    found: dict[int, dict[tuple[int, int, int], int]] = {partition: {} for partition in PARTITIONS}
    for (topic, partition, broker), directory in replica_directories(root).items():
        if topic == ORDERS and broker in brokers:
            found[partition].update({(one.base, one.last, one.epoch): one.records for one in batches(directory)})
    return Counter({partition: sum(held.values()) for partition, held in found.items()})


def _said_to_be_lost(text: str) -> int:
    """By the steps, and by the refusals of leaders that the order of starts leaves no place for."""
    crossed = [(len(re.findall(r"`[^`]+`", names)), int(count)) for names, count in _CROSSED.findall(text)]
    return sum(map(int, _LOSES.findall(text))) + sum(count * records for count, records in crossed)


def _elections(plan: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in plan.glob("elect-unclean*.json")}


def test_a_lost_disk_is_planned_without_and_replaced(lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    operator = Operator(lab, tools(lab, tmp_path / "bin"), tmp_path / "safe")
    outage(lab, operator, tmp_path)
    root = copy_all(lab, tmp_path / "copy")
    for directory in lab.brokers[_GONE].log_dirs:
        shutil.rmtree(directory)
        directory.mkdir()

    without = copy_all(lab, tmp_path / "without")
    shutil.rmtree(without / f"broker-{_GONE}")
    never, refused = tmp_path / "never", tmp_path / "refused"
    assert cli.main(["triage", "--input", str(without), "--plan", str(refused)]) == 1
    assert "it could not be read, or is not in the input, and may hold more than the others" in (refused / "PLAN.md").read_text(
        encoding="utf-8"
    )
    assert not _elections(refused)
    assert cli.main(["triage", "--input", str(without), "--plan", str(never), "--gone", str(_GONE)]) == 1
    assert "how much is unknown: it was never collected" in (never / "PLAN.md").read_text(encoding="utf-8")

    plan, saved = tmp_path / "plan", tmp_path / "saved"
    assert cli.main(["triage", "--input", str(root), "--plan", str(plan), "--salvage", str(saved), "--gone", str(_GONE)]) == 1
    assert _elections(plan) == _elections(never) != {}
    text = (plan / "PLAN.md").read_text(encoding="utf-8")
    assert f"broker {_GONE} is gone for good (--gone)" in text
    rows = planned_truncations(plan)
    assert {row["broker"] for row in rows} == {"1", "2"}

    say("\n".join(step.title for step in operator.do(plan)))
    lab.wait_in_sync(ORDERS, LEDGER, OFFSETS)
    after = copy_all(lab, tmp_path / "after")
    replicas, cut = by_the_files(rows, root, after)
    assert replicas
    _every_replica_is_equal(after)

    held, left = _values(root, (1, 2, 3)), _values(after, (1,))
    lost = held - left
    assert sum(lost.values()) == _said_to_be_lost(text)
    assert Counter(row["partition"] for row in records(saved)) == lost
    of_gone = held - _values(root, (1, 2))
    say(f"{replicas} replicas truncated {cut} records, {sum(of_gone.values())} only broker {_GONE} held, {sum(lost.values())} are lost")
    assert sum(lost.values()) == cut + sum(of_gone.values())
    assert {partition: len(found) for partition, found in read_all(lab, None).items()} == left
    capfd.readouterr()
    delete_topics(lab, ORDERS, LEDGER)


def _every_replica_is_equal(root: Path) -> None:
    found = replica_directories(root)
    for partition in PARTITIONS:
        assert len({tuple(batches(found[ORDERS, partition, broker])) for broker in (1, 2, _GONE)}) == 1, partition
