"""Documents are posted to a real service, and whatever it does is borne within a bounded time, without its address in any text."""

from __future__ import annotations

import logging
import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from replica_audit.program import VERSION
from replica_audit.webhook import posting
from replica_audit.webhook.posting import VARIABLE, WebhookAddress, post, webhook_address
from tests.describe.certificates import self_signed
from tests.webhook.service import SECRET, Answer, Service, answer, service

DOCUMENT = b'{"run_id": "r"}'
PATIENT_S = 600.0  # never waited for
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "_PAUSE_S", 0.0)
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(autouse=True)
def _logged(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a library logs, at whatever level, is looked at, as if somebody had asked for all of it."""
    said: list[str] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: said.append(record.getMessage()))
    monkeypatch.setattr(logging.getLogger("urllib3"), "propagate", True)
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.DEBUG)
    root.addHandler(handler)
    yield
    root.removeHandler(handler)
    root.setLevel(before)
    printed = capfd.readouterr()
    assert SECRET not in "\n".join([*said, printed.out, printed.err])


def address(url: str) -> WebhookAddress:
    found = webhook_address("", {VARIABLE: url})
    assert found
    return found


def told(one: Service | str, timeout_s: float = PATIENT_S) -> str:
    """Why a post came to nothing."""
    said = post(address(one if isinstance(one, str) else one.url), DOCUMENT, timeout_s)
    assert said is not None
    assert SECRET not in said and "/hooks/" not in said
    return said


def hang(held: list[Service]) -> Answer:
    """Answer nothing as long as the service runs."""

    def take(_handler: BaseHTTPRequestHandler) -> None:
        held[0].ends.wait()

    return take


def drip(held: list[Service]) -> Answer:
    """Answer a byte now and then, which begins each timeout of the socket again."""

    def take(handler: BaseHTTPRequestHandler) -> None:
        while not held[0].ends.wait(0.02):
            handler.wfile.write(b"H")

    return take


def test_a_document_is_posted_once() -> None:
    with service(answer(204)) as one:
        assert post(address(one.url), DOCUMENT, PATIENT_S) is None
    assert (one.documents, one.paths) == ([{"run_id": "r"}], [f"/hooks/{SECRET}"])
    assert (one.headers[0]["content-type"], one.headers[0]["user-agent"]) == ("application/json", f"replica-audit/{VERSION}")


@pytest.mark.parametrize("status", sorted(posting._PASSING))
def test_what_may_pass_is_tried_again(status: int) -> None:
    with service(answer(status), answer(status), answer(200)) as one:
        assert post(address(one.url), DOCUMENT, PATIENT_S) is None
    assert len(one.documents) == 3


def test_it_is_not_tried_for_ever() -> None:
    with service(answer(500)) as one:
        assert told(one) == "answered 500, 3 times"
    assert len(one.documents) == 3


def test_a_pause_comes_before_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "_PAUSE_S", 0.1)
    began = time.monotonic()
    with service(answer(503)) as one:
        told(one)
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 501])
def test_what_will_not_pass_is_not_tried_again(status: int) -> None:
    with service(answer(status)) as one:
        assert told(one) == f"answered {status}"
    assert len(one.documents) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    with service() as other, service(answer(status, location=other.url)) as one:
        assert told(one) == f"answered {status}: redirects are not followed, give the address that it leads to"
    assert (len(one.documents), other.documents) == (1, [])


@pytest.mark.parametrize("slow", [hang, drip])
def test_a_service_that_does_not_answer_is_waited_for_within_bounds(slow: type) -> None:
    held: list[Service] = []
    with service(slow(held)) as one:
        held.append(one)
        assert told(one, 0.2) in ("did not answer within 0.2 s, 3 times", "did not answer in time, 3 times")


def test_an_answer_that_takes_a_while_is_an_answer() -> None:
    def slow(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(0.3)
        answer(200)(handler)

    with service(slow) as one:
        assert post(address(one.url), DOCUMENT, PATIENT_S) is None
    assert len(one.documents) == 1


def test_a_service_that_hangs_up() -> None:
    with service(lambda handler: handler.connection.close()) as one:
        assert told(one).startswith("the connection broke")
    assert len(one.documents) == 3


def test_nobody_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and does not listen
        said = told(f"http://127.0.0.1:{held.getsockname()[1]}/hooks/{SECRET}")
    assert said == "cannot be connected to (Connection refused), 3 times"


def test_a_host_that_is_not_known() -> None:
    assert told(f"https://no-such-host.invalid/hooks/{SECRET}") == "its name is not known, 3 times"


def test_what_speaks_no_http() -> None:
    def greet(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"220 mail ready\r\n")

    with service(greet) as one:
        assert told(one).startswith("the connection broke")


class TestCertificates:
    def test_one_that_nobody_vouches_for_is_refused(self, tmp_path: Path) -> None:
        with service(certificate=self_signed(tmp_path / "key.pem")) as one:
            assert told(one) == "its certificate was not accepted (self-signed certificate)"
        assert one.documents == []

    def test_one_that_is_trusted_is_accepted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        certificate = self_signed(tmp_path / "key.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with service(certificate=certificate) as one:
            assert post(address(one.url), DOCUMENT, PATIENT_S) is None
        assert len(one.documents) == 1

    def test_one_of_another_host_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        certificate = self_signed(tmp_path / "key.pem", address="127.0.0.9")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with service(certificate=certificate) as one:
            assert told(one).startswith("its certificate was not accepted (IP address mismatch")
        assert one.documents == []

    def test_a_service_without_tls(self) -> None:
        with service() as one:
            assert told(one.url.replace("http:", "https:")).startswith("its certificate was not accepted")
        assert one.documents == []


def test_a_password_goes_as_basic_authentication_and_not_in_the_path() -> None:
    with service() as one:
        assert post(address(one.url.replace("//", "//ana:s%40cret@")), DOCUMENT, PATIENT_S) is None
    assert one.headers[0]["authorization"] == f"Basic {b64encode(b'ana:s@cret').decode()}"
    assert one.paths == [f"/hooks/{SECRET}"]


def test_a_proxy_of_the_environment_is_used_and_has_its_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    with service() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("//", "//bob:word@").removesuffix(f"/hooks/{SECRET}"))
        assert post(address("http://hooks.invalid/x"), DOCUMENT, PATIENT_S) is None
        assert proxy.paths == ["http://hooks.invalid/x"]
        assert proxy.headers[0]["proxy-authorization"] == f"Basic {b64encode(b'bob:word').decode()}"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with service() as one:
            assert post(address(one.url), DOCUMENT, PATIENT_S) is None
        assert (len(one.documents), len(proxy.documents)) == (1, 1)
