"""Where documents are posted. Whoever knows such an address can post there, so no text, table or traceback ever shows it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from replica_audit.errors import ConfigError

VARIABLE = "REPLICA_AUDIT__WEBHOOK_URL"
_LARGEST = 1 << 13


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAddress:
    """An address. Only `host` is for people; `login` is user:password of the address, or None."""

    url: str = field(repr=False)
    host: str
    login: str | None = field(repr=False)

    def __str__(self) -> str:
        """The part that is no secret."""
        return self.host


def webhook_address(file: str, environment: Mapping[str, str] | None = None) -> WebhookAddress | None:
    """The address: of the variable, else in the file; None if neither is given.

    Raises:
        ConfigError: it is no address, or the file cannot be read; the message does not have it.
    """
    given = (os.environ if environment is None else environment).get(VARIABLE, "").strip()
    if given:
        return _address(given, VARIABLE)
    return _address(_content(Path(file).expanduser()), f"webhook_url_file {file}") if file else None


def _content(path: Path) -> str:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ConfigError(f"webhook_url_file {path}: a pipe or a device; it is read more than once, so it must be a file")
        with path.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ConfigError(f"webhook_url_file {path}: larger than {_LARGEST >> 10} KiB; it must hold one address")
        return content.decode().strip()
    except OSError as error:
        raise ConfigError(f"webhook_url_file {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"webhook_url_file {path}: not UTF-8") from None


def _address(text: str, where: str) -> WebhookAddress:
    parts = _split(text)
    host = parts.hostname if parts else None
    if parts is None or not host or parts.scheme not in ("http", "https"):
        raise ConfigError(f"{where}: must hold one address that begins with https:// or http:// and names a host (it is not shown here)")
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username is not None else None
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="")
    return WebhookAddress(url=bare.geturl(), host=host, login=login)


def _split(text: str) -> SplitResult | None:
    if not text.isascii() or not text.isprintable() or " " in text:
        return None
    try:
        parts = urlsplit(text)
        return None if parts.port == 0 else parts
    except ValueError:  # a port or an IPv6 address that is none; its message has the address
        return None
