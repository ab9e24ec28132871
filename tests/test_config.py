"""Settings: where they come from, and errors that name the key."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from replica_audit import config
from replica_audit.errors import ConfigError

CONF = Path(__file__).resolve().parents[1] / "conf" / "audit.yaml"


def test_the_shipped_file_holds_every_key_with_its_default() -> None:
    assert config.load(CONF, {}, {}) == config.Settings()
    text = CONF.read_text(encoding="utf-8")
    assert all(f"\n{key}: " in text for key in config.Settings.model_fields)


def test_flag_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = tmp_path / "audit.yaml"
    file.write_text("fail_on: warning\nworst: 5\nprotocol: kip-101\n", encoding="utf-8")
    settings = config.load(file, {"protocol": "kip-279"}, {"REPLICA_AUDIT__WORST": "7", "REPLICA_AUDIT__PROTOCOL": "high-watermark"})
    assert (settings.fail_on, settings.worst, settings.protocol, settings.topics) == ("warning", 7, "kip-279", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fail-on: error", "unknown key 'fail-on'"),
        ("fail_on: loud", "key 'fail_on'"),
        ("worst: -1", "key 'worst'"),
        ("topics: '('", "key 'topics': not a regular expression"),
        ("protocol: [a]", "key 'protocol'"),
        ("- a\n- b", "must hold keys and values"),
        ("a: [", "not YAML"),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "audit.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        config.load(file, {}, {})
    assert str(file) in str(raised.value)
    assert said in str(raised.value)


def test_settings_of_an_earlier_version_do_nothing_and_are_told(tmp_path: Path) -> None:
    file = tmp_path / "audit.yaml"
    file.write_text("full_every_days: 7\nworst: 5\n", encoding="utf-8")
    assert config.load(file, {}, {}) == config.Settings(worst=5)
    assert config.load(None, {}, {"REPLICA_AUDIT__FULL_EVERY_DAYS": "0"}) == config.Settings()
    told = ["full_every_days does nothing any more: every audit is full; take it out of the settings"]
    assert config.former_settings(file, {}) == told == config.former_settings(None, {"REPLICA_AUDIT__FULL_EVERY_DAYS": "0"})
    assert config.former_settings(CONF, {}) == []


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="No such file"):
        config.load(Path("nowhere.yaml"), {}, {})


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    file = tmp_path / "audit.yaml"
    file.write_text("# nothing\n", encoding="utf-8")
    assert config.load(file, {}, {}) == config.Settings()


def test_a_file_without_a_byte_is_none_that_somebody_wrote(tmp_path: Path) -> None:
    file = tmp_path / "audit.yaml"
    file.touch()
    with pytest.raises(ConfigError, match=r"audit.yaml: is empty, as a power cut leaves it; write it again, or the line '# defaults'"):
        config.load(file, {}, {})


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(LAUGHS + "worst: *j\n", "line 2: an alias (*a); write the value itself", id="billion laughs"),
        pytest.param("worst: &a [*a]", "line 1: an alias (*a)", id="a list that holds itself"),
        pytest.param("worst: " + "[" * 100_000, "line 1: nested too deep", id="nested lists"),
        pytest.param("worst: " + "{a: " * 100_000, "line 1: nested too deep", id="nested mappings"),
        pytest.param("worst: 5\n" + "#" * (2 << 20), "larger than 1 MiB", id="large"),
        pytest.param("worst: " + "9" * 5000, "not YAML: ", id="5,000 digits"),
        pytest.param("worst: 0x" + "f" * 5000, "key 'worst': ", id="5,000 digits that are read"),
        pytest.param("worst: 2001-99-99", "not YAML: month must be in 1..12", id="a date that is none"),
        pytest.param('topics: "\\ud800"', "key 'topics': not a regular expression", id="half of a character"),
        pytest.param("worst: !!python/object/apply:os.system [id]", "not YAML: ", id="a command"),
    ],
)
def test_a_file_that_would_fill_memory_is_refused_at_once(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "audit.yaml"
    file.write_text(text, encoding="utf-8")
    began = time.process_time()
    with pytest.raises(ConfigError) as raised:
        config.load(file, {}, {})
    assert said in str(raised.value)
    assert len(str(raised.value)) < 700
    assert raised.value.exit_code == 2
    assert time.process_time() - began < 5


def test_a_device_without_end_is_no_configuration() -> None:
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        config.load(Path("/dev/zero"), {}, {})
