"""Settings: where they come from, and errors that name the key."""

from __future__ import annotations

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


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="No such file"):
        config.load(Path("nowhere.yaml"), {}, {})


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    file = tmp_path / "audit.yaml"
    file.write_text("# nothing\n", encoding="utf-8")
    assert config.load(file, {}, {}) == config.Settings()
