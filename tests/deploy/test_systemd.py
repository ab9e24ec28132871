"""deploy/systemd: what systemd itself says of the units, and their commands, run."""

from __future__ import annotations

import configparser
import os
import shlex
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from tests.deploy.manifests import DEPLOY, parsed
from tests.house.checkout import ROOT

UNITS = sorted((DEPLOY / "systemd").iterdir())
PROGRAM = "/opt/replica-audit/bin/replica-audit"
DATA = ROOT / "tests" / "data" / "sample" / "committed-loss" / "broker-1" / "data-0"


def service() -> dict[str, str]:
    read = configparser.RawConfigParser(strict=False)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read(DEPLOY / "systemd" / "replica-audit-collect.service")
    return dict(read["Service"])


def complaints(folder: Path, change: tuple[str, str] = ("", "")) -> str:
    """What `systemd-analyze verify` prints of copies whose program is there; `change` is a text to put in the place of another."""
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8").replace(PROGRAM, "/bin/true")
        (folder / unit.name).write_text(text.replace(*change) if change[0] else text, encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", *(folder / unit.name for unit in UNITS)], capture_output=True, text=True)
    return done.stdout + done.stderr


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    assert complaints(tmp_path) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("ProtectSystem=", "ProtectSystm="),
        ("OnCalendar=*-*-* 02:00:00", "OnCalendar=*-*-* 25:00:00"),
        ("IOSchedulingClass=idle", "IOSchedulingClass=idl"),
        ("[Timer]", "[Timr]"),
        ("/bin/true", "/bin/nowhere"),
    ],
)
def test_systemd_names_what_is_wrong(tmp_path: Path, right: str, wrong: str) -> None:
    assert complaints(tmp_path, (right, wrong))


def test_the_unit_is_as_closed_as_it_can_be() -> None:
    """systemd's own measure, from 0 for closed to 10 for open."""
    unit = str(DEPLOY / "systemd" / "replica-audit-collect.service")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", unit]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    open_unit = [*command[:-1], str(DEPLOY / "systemd" / "replica-audit-collect.timer")]
    assert subprocess.run(open_unit, capture_output=True, check=False).returncode != 0


def test_the_commands_do_what_the_unit_is_for(tmp_path: Path) -> None:
    """As the unit has them, with folders of this test: two nights, of which the second takes over from the first, and a copy by day."""
    state, properties = tmp_path / "state", tmp_path / "server.properties"
    properties.write_text(f"node.id=1\nlog.dirs={DATA}\n", encoding="utf-8")
    for name in ("collected", "days", "run"):
        (state / name).mkdir(parents=True)
    places = {
        "/var/lib/replica-audit": str(state),
        "/run/replica-audit": str(state / "run"),
        "/etc/kafka/server.properties": str(properties),
        PROGRAM: f"{Path(sys.executable).parent}/replica-audit",
    }

    def here(text: str) -> str:
        for place, real in places.items():
            text = text.replace(place, real)
        return text.replace("$$", "$").replace("%%", "%")

    unit = service()
    words = shlex.split(unit["ExecStart"])
    assert words[0] == PROGRAM and parsed(words[1:])["since"] == parsed(words[1:])["output"]
    afterwards = here(unit["ExecStartPost"])
    environment = {**os.environ, "OUTPUT": str(state / "collected")}
    for night in range(2):
        command = [here(word).replace("${OUTPUT}", environment["OUTPUT"]) for word in words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        assert ("no collection of broker" in done.stderr) is (night == 0)
        post = subprocess.run(shlex.split(afterwards), capture_output=True, text=True, env=environment, check=False)
        assert (post.returncode, post.stderr) == (0, "")
    day = state / "days" / str(date.today().isoweekday())
    assert (day / "broker-1" / "manifest.json").stat().st_ino == (state / "collected" / "broker-1" / "manifest.json").stat().st_ino
    assert '"exit_code": 0' in (state / "run" / "collect.json").read_text(encoding="utf-8")
    assert unit["SuccessExitStatus"] == "3"
