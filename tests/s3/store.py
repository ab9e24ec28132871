"""A store that speaks S3 on a free port of the loopback, in a process of its own, which the tests and Spark's tasks talk to over HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

_WAIT_SECONDS = 600
_PLAIN = {"Content-Type": "text/plain"}
_SERVER = """
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
import os, time
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
parent = os.getppid()
print(server.get_host_and_port()[1], flush=True)
while os.getppid() == parent:  # else nobody is left to end it
    time.sleep(1)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """`endpoint` is its address; `variables` are those by which AWS's libraries find it."""

    endpoint: str
    variables: Mapping[str, str]

    def client(self) -> Any:
        """boto3's client of it."""
        keys = {"aws_access_key_id": self.variables["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": self.variables["AWS_SECRET_ACCESS_KEY"]}
        return boto3.client(
            "s3", endpoint_url=self.endpoint, region_name="us-east-1", config=Config(retries={"total_max_attempts": 1}), **keys
        )

    def upload(self, folder: Path, bucket: str, prefix: str = "") -> None:
        """Copy the files below a folder to a bucket, which is made."""
        client = self.client()
        client.create_bucket(Bucket=bucket)
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                client.put_object(Bucket=bucket, Key=f"{prefix}{path.relative_to(folder)}", Body=path.read_bytes())

    def check_rights(self, *, after_calls: int) -> None:
        """Let the server look at who asks for what, once it was called so many more times."""
        data = str(after_calls).encode()
        request = urllib.request.Request(f"{self.endpoint}/moto-api/reset-auth", data=data, headers=_PLAIN)  # noqa: S310 - http, to itself
        with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310
            answer.read()


@contextmanager
def s3_store(access_key: str = "test", secret_key: str = "test") -> Iterator[Store]:  # noqa: S107 - it takes any
    """Start the server, and stop it whatever happens."""
    recorded = tempfile.TemporaryDirectory(prefix="replica-audit-requests-")
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "MOTO_RECORDER_FILEPATH": f"{recorded.name}/requests"},
    )
    try:
        assert process.stdout
        endpoint = f"http://127.0.0.1:{int(process.stdout.readline())}"
        _wait(endpoint)
        variables = {
            "AWS_ACCESS_KEY_ID": access_key,
            "AWS_SECRET_ACCESS_KEY": secret_key,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_S3": endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        yield Store(endpoint=endpoint, variables=variables)
    finally:
        process.kill()
        process.communicate()
        recorded.cleanup()


def _wait(endpoint: str) -> None:
    until = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < until:
        with suppress(urllib.error.URLError, ConnectionError), urllib.request.urlopen(f"{endpoint}/moto-api/", timeout=60):  # noqa: S310
            return
        time.sleep(0.1)
    raise TimeoutError(f"{endpoint} does not answer")
