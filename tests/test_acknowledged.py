"""The file of acknowledgements: what it takes, and each error with its line and what to write."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from replica_audit import acknowledged
from replica_audit.errors import ConfigError
from replica_audit.rows.codes import Severity

ON = date(2026, 11, 23)
GOOD = "reason: disk, who: ana, until: 2026-12-01"


def load(folder: Path, text: str) -> acknowledged.Acknowledgements:
    path = folder / "acknowledged.yaml"
    path.write_text(text, encoding="utf-8")
    return acknowledged.load(path, ON)


def test_every_key(tmp_path: Path) -> None:
    text = f"# known\n\n- {{{GOOD}, cluster: a.c, topic: orders, partition: 3, replica: [1, 2], verdict: stale_tail, severity: critical, "
    (one,) = load(tmp_path, text + "at_most_records: 7}\n").entries
    assert (one.line, one.reason, one.who, one.until) == (3, "disk", "ana", date(2026, 12, 1))
    assert (one.cluster, one.topic, one.partitions, one.replicas, one.verdict) == ("a.c", "orders", (3,), (1, 2), "stale_tail")
    assert (one.severity, one.at_most_records) == (Severity.CRITICAL, 7)


def test_what_is_left_out(tmp_path: Path) -> None:
    (one,) = load(tmp_path, f"- {{{GOOD}, replica: 3}}").entries
    assert (one.severity, one.at_most_records, one.topic, one.partitions) == (Severity.ERROR, 0, None, None)


@pytest.mark.parametrize("text", ["", "# nothing\n", "[]"])
def test_none(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).entries == ()


def test_the_file_that_is_shipped_acknowledges_nothing_and_its_example_is_one() -> None:
    shipped = Path(__file__).resolve().parents[1] / "conf" / "acknowledged.yaml"
    assert acknowledged.load(shipped, ON).entries == ()
    written = [line.removeprefix("# ") for line in shipped.read_text(encoding="utf-8").splitlines() if line.startswith(("# - ", "#   "))]
    keys = {line.strip("#- ").partition(":")[0].strip() for line in written if ":" in line}
    assert set(acknowledged.Entry.model_fields) <= keys


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topic: orders", "line 1: must be a list of acknowledgements, such as"),
        ("- orders", "line 1: must hold keys and values"),
        ("- topic: orders\n  who: ana\n  until: 2026-12-01", "line 1: key 'reason' is missing: why nothing has to be done"),
        (f"- {{{GOOD}}}", "line 1: it is about every finding; give at least one of cluster, topic"),
        (f"- {{{GOOD}, topic: a}}\n- {GOOD.replace(', ', chr(10) + '  ')}\n  tpoic: b", "line 5: unknown key 'tpoic' (known: reason, "),
        ("- topic: a\n  reason: x\n  who: me\n  until: soon", "line 4: key 'until' (last day on which it holds, YYYY-MM-DD)"),
        ("- topic: a\n  reason: x\n  who: me\n  until: 2026-02-30", "line 4: key 'until'"),
        (f"- {{{GOOD}, topic: 'a['}}", "line 1: key 'topic' (regular expression that the topic's whole name must match): not a regular"),
        (f"- {{{GOOD}, verdict: stale}}", "no verdict or code of a finding matches; known: unreadable"),
        (f"- {{{GOOD}, replica: -1}}", "line 1: key 'replica'"),
        (f"- {{{GOOD}, partition: []}}", "line 1: key 'partition'"),
        (f"- {{{GOOD}, topic: a, severity: none}}", "clean verdicts need no acknowledgement; give critical, error or warning"),
        (f"- {{{GOOD}, topic: a, at_most_records: many}}", "line 1: key 'at_most_records' (most records that a finding may lose)"),
        ("- topic: a\n  topic: b", "line 2: key 'topic' is given twice; remove one"),
        ("- &a {topic: b}\n- *a", "line 2: an alias"),
        ("- [", "not YAML"),
    ],
)
def test_an_error_names_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text)
    assert str(raised.value).startswith(str(tmp_path / "acknowledged.yaml"))
    assert said in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone.yaml: No such file"):
        acknowledged.load(tmp_path / "gone.yaml", ON)
