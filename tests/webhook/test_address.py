"""Where the address of a webhook comes from, and that nothing shows it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replica_audit import config
from replica_audit.errors import ConfigError
from replica_audit.webhook.posting import VARIABLE, webhook_address
from tests.webhook.service import SECRET

URL = f"https://hooks.example.com:8443/services/{SECRET}?key={SECRET}"


def refused(file: str, environment: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as raised:
        webhook_address(file, environment)
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    return str(raised.value)


def test_without_an_address_there_is_none() -> None:
    assert webhook_address("", {}) is None
    assert webhook_address("", {VARIABLE: " "}) is None


def test_the_variable_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("https://of-the-file.example.com/x\n")
    of_file, of_variable = webhook_address(str(file), {}), webhook_address(str(file), {VARIABLE: URL})
    assert of_file and of_variable
    assert (of_file.host, of_variable.host, of_variable.url) == ("of-the-file.example.com", "hooks.example.com", URL)


def test_only_the_host_is_shown() -> None:
    found = webhook_address("", {VARIABLE: f"https://ana:{SECRET}@hooks.example.com/{SECRET}"})
    assert found
    assert (str(found), repr(found)) == ("hooks.example.com", "WebhookAddress(host='hooks.example.com')")
    assert (found.login, found.url) == (f"ana:{SECRET}", f"https://hooks.example.com/{SECRET}")


@pytest.mark.parametrize(
    "text",
    [
        f"hooks.example.com/{SECRET}",
        f"ftp://hooks.example.com/{SECRET}",
        f"file:///etc/{SECRET}",
        f"https:///{SECRET}",
        f"https://[::1/{SECRET}",
        f"https://hooks.example.com:port/{SECRET}",
        f"https://hooks.example.com:99999/{SECRET}",
        f"https://hooks.example.com/{SECRET} and more",
        f"https://hooks.example.com/{SECRET}\nhttps://other.example.com/",
        f"https://hooks.example.com/{SECRET}\x1b[2J",
        f"https://höoks.example.com/{SECRET}",
    ],
)
def test_what_is_no_address_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    assert refused("", {VARIABLE: text}).startswith(f"{VARIABLE}: must hold one address that begins with https://")
    file = tmp_path / "secret"
    file.write_text(text, encoding="utf-8")
    assert refused(str(file), {}).startswith(f"webhook_url_file {file}: must hold one address")


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    assert refused(str(file), {}) == f"webhook_url_file {file}: No such file or directory"
    assert refused(str(tmp_path), {}) == f"webhook_url_file {tmp_path}: Is a directory"
    os.mkfifo(tmp_path / "pipe")
    assert "it is read more than once, so it must be a file" in refused(str(tmp_path / "pipe"), {})
    file.write_bytes(b"\xff" + SECRET.encode())
    assert refused(str(file), {}) == f"webhook_url_file {file}: not UTF-8"
    file.write_text(f"https://x/{SECRET * 1000}")
    assert refused(str(file), {}) == f"webhook_url_file {file}: larger than 8 KiB; it must hold one address"
    file.write_text("\n")
    assert "must hold one address" in refused(str(file), {})


def test_settings_never_have_it(tmp_path: Path) -> None:
    settings = config.load(None, {}, {VARIABLE: URL, "REPLICA_AUDIT__WEBHOOK_ON": "always"})
    assert settings.webhook_on == "always"
    assert SECRET not in settings.model_dump_json() + repr(settings)


def test_a_file_of_settings_is_no_place_for_it(tmp_path: Path) -> None:
    file = tmp_path / "audit.yaml"
    file.write_text(f"webhook_url: {URL}\n")
    with pytest.raises(ConfigError) as raised:
        config.load(file, {}, {})
    assert str(raised.value) == f"{file}: key 'webhook_url': a secret; set {VARIABLE}, or name a file that holds it: webhook_url_file"
