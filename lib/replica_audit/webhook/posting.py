"""Posting a document: a few tries within a bounded time, to one host, and a sentence without the address if it comes to nothing."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.util import make_headers, parse_url

from replica_audit.errors import ConfigError
from replica_audit.program import VERSION

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


_TRIES = 3
_PAUSE_S = 1.0  # before the second try, doubled before the third
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})  # answers that may be another one a little later


def post(address: WebhookAddress, document: bytes, timeout_s: float) -> str | None:
    """Post a JSON document; None once the service has taken it, else why it did not, without the address.

    Each try may take `timeout_s`, whatever the service does meanwhile: it may hang, or answer a byte a minute. A document may arrive twice,
    if the answer to the first try came late. Certificates are verified; redirects are not followed, to whatever host they lead.
    """
    logging.getLogger("urllib3").propagate = False  # it logs addresses
    said = "not tried"
    for number in range(_TRIES):
        if number:
            threading.Event().wait(_PAUSE_S * 2 ** (number - 1))
        outcome = _Try(address, document, timeout_s).outcome()
        if outcome is None:
            return None
        said, may_pass = outcome
        if not may_pass:
            return said
    return f"{said}, {_TRIES} times"


class _Try:
    """One try, in a thread of its own: a timeout of the socket is begun again by each byte that comes."""

    def __init__(self, address: WebhookAddress, document: bytes, timeout_s: float) -> None:
        self._address, self._document, self._timeout_s = address, document, timeout_s
        self._outcome: tuple[str, bool] | None = (f"did not answer within {timeout_s:g} s", True)

    def outcome(self) -> tuple[str, bool] | None:
        """None if it was taken; else why not, and whether another try may be."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        thread.join(self._timeout_s)
        return self._outcome

    def _run(self) -> None:
        try:
            outcome = self._posted()
        except Exception as error:  # noqa: BLE001 - whatever it is, its message may hold the address
            outcome = _why(error)
        self._outcome = outcome

    def _posted(self) -> tuple[str, bool] | None:
        address = self._address
        headers = {"content-type": "application/json", "user-agent": f"replica-audit/{VERSION}"}
        if address.login is not None:
            headers |= make_headers(basic_auth=address.login)
        with _pool(address) as pool:
            response = pool.request(
                "POST",
                address.url,
                body=self._document,
                headers=headers,
                timeout=urllib3.Timeout(self._timeout_s),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            status = response.status
            response.close()
        if 200 <= status < 300:
            return None
        if 300 <= status < 400:
            return f"answered {status}: redirects are not followed, give the address that it leads to", False
        return f"answered {status}", status in _PASSING


def _pool(address: WebhookAddress) -> urllib3.PoolManager:
    """Connections to the host, through the proxy that the environment names for it (HTTPS_PROXY, HTTP_PROXY, NO_PROXY)."""
    proxy = None if proxy_bypass(address.host) else getproxies().get(address.url.partition(":")[0])
    if not proxy:
        return urllib3.PoolManager(cert_reqs="CERT_REQUIRED")
    login = parse_url(proxy).auth
    return urllib3.ProxyManager(proxy, proxy_headers=make_headers(proxy_basic_auth=login) if login else None, cert_reqs="CERT_REQUIRED")


def _why(error: Exception) -> tuple[str, bool]:
    """What went wrong, in words of our own."""
    cause = error.__cause__ or error.__context__ or error
    match error:
        case urllib3.exceptions.SSLError():
            return f"its certificate was not accepted ({getattr(cause, 'verify_message', '') or type(cause).__name__})", False
        case urllib3.exceptions.ProxyError():
            return "its proxy did not connect", True
        case urllib3.exceptions.NameResolutionError():
            return "its name is not known", True
        case urllib3.exceptions.NewConnectionError():
            return f"cannot be connected to ({getattr(cause, 'strerror', None) or type(cause).__name__})", True
        case urllib3.exceptions.TimeoutError():
            return "did not answer in time", True
        case _:
            return f"the connection broke ({type(error).__name__})", True
