"""A web service on a free port of this machine that answers as it is told."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SECRET = "T0KEN-that-nobody-sees"  # noqa: S105 - of no service
Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Service:
    """What was posted, and where to. `ends` is set when the service stops, for answers that wait."""

    url: str = ""
    paths: list[str] = field(default_factory=list)
    documents: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    ends: threading.Event = field(default_factory=threading.Event)


def answer(status: int, **headers: str) -> Answer:
    """Answer so."""

    def take(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return take


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_about: object) -> None:
        """Clients go away, which is tested."""


@contextmanager
def service(*answers: Answer, certificate: Path | None = None) -> Iterator[Service]:
    """Answer the first posts so, one after the other, and all further ones as the last."""
    found, left, lock = Service(), list(answers or (answer(200),)), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with lock:
                found.paths.append(self.path)
                found.headers.append({name.lower(): value for name, value in self.headers.items()})
                found.documents.append(json.loads(body))
                take = left.pop(0) if len(left) > 1 else left[0]
            take(self)

        do_GET = do_POST

        def log_message(self, *_words: object) -> None:
            """Be quiet."""

    server = _Server(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    found.url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}/hooks/{SECRET}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield found
    finally:
        found.ends.set()
        server.shutdown()
        thread.join()
        server.server_close()
