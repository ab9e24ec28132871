"""The outputs that documents show are what their commands print."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from replica_audit import cli

ROOT = Path(__file__).resolve().parents[2]
# README.md, docs/start.md, and the handbook of incidents: each page is of one cluster, which it names
PAGES = [ROOT / "README.md", ROOT / "docs" / "start.md", *sorted((ROOT / "docs" / "incidents").glob("*.md"))]
_PRODUCT = re.compile(r"(\./spark-submit\.sh|replica-audit) ")
_SHOWN = re.compile(r"^```(sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INPUT = "/backup/brokers"


@dataclass(slots=True)
class Shown:
    """A command, and the parts of its output that a page shows, in their order."""

    command: str
    parts: list[str] = field(default_factory=list)


def shown(page: str) -> list[Shown]:
    """What a page has: outputs follow their command; a line with an ellipsis alone stands for what is left out."""
    found: list[Shown] = []
    for kind, text in _SHOWN.findall(page):
        if kind == "sh":
            found += [Shown(line) for line in text.replace("\\\n", " ").splitlines()]
        elif found:
            found[-1].parts += [part.strip("\n") for part in re.split(r"^…$", text, flags=re.MULTILINE)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_what_is_shown_is_what_is_printed(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = page.read_text(encoding="utf-8")
    brokers = tmp_path / "brokers"
    for cluster in re.findall(r"`(tests/data/[\w./-]+)`", text)[:1]:
        brokers.symlink_to(ROOT / cluster)
    monkeypatch.chdir(tmp_path)
    assert any(one.parts for one in shown(text))
    for one in shown(text):
        if not one.parts and one.command.startswith("./spark-submit.sh audit "):
            continue  # starts Spark: test_commands.py runs it
        command = one.command.replace(INPUT, str(brokers))
        if _PRODUCT.match(command):
            code = cli.main(shlex.split(command, comments=True)[1:])
            printed = capfd.readouterr().out
        else:
            done = subprocess.run(["bash", "-euc", command], capture_output=True, text=True, check=False)
            code, printed = done.returncode, done.stdout
        printed = printed.replace(str(brokers), INPUT)
        assert code in (0, 1), f"{one.command}: exit code {code}"
        at = 0
        for part in one.parts:
            found = f"\n{printed}\n".find(f"\n{part}\n", at)
            assert found >= 0, f"{page.name} shows of {one.command}\n{part}\nbut it prints\n{printed}"
            at = found + len(part)


def test_another_output_is_noticed() -> None:
    page = "```sh\na b\n```\ntext\n```text\none\n…\ntwo\nthree\n```\n```sh\nc\n```\n"
    assert shown(page) == [Shown("a b", ["one", "two\nthree"]), Shown("c")]
