"""The images of deploy/image, built by Debian's buildah on a base that mmdebstrap makes, and run as Kubernetes runs them.

A container here is the image's own file system, mounted read-only, with /proc, /dev, /etc/hosts and a writable /tmp of its own, and in it
the image's user, variables and entry point: what `securityContext` of deploy/kubernetes asks for.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.house.checkout import ROOT

RECIPE = ROOT / "deploy" / "image" / "Containerfile"
STORE = ROOT / ".cache" / "images"
_DEBIAN = "localhost/replica-audit-tests-debian"
_CERTIFICATES, _PIP = Path("/etc/ssl/certs"), Path("/etc/pip.conf")
_START = """
set -e
root="$1" tmp="$2" log="$3" user="$4"
hosts="$tmp/../hosts"
echo "127.0.0.1 localhost $(hostname)" > "$hosts"
shift 4
touch "$root/etc/hosts"
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
mount --bind "$tmp" "$root/tmp"
mount --bind "$hosts" "$root/etc/hosts"
mount -t tmpfs tmpfs "$root/dev"
for node in null zero urandom; do touch "$root/dev/$node" && mount --bind "/dev/$node" "$root/dev/$node"; done
ln -s /proc/self/fd "$root/dev/fd"
touch "$root/dev/termination-log" && mount --bind "$log" "$root/dev/termination-log"
mount -o remount,ro "$root/dev"
mount -t proc proc "$root/proc"
while [ "$1" != -- ]; do mount --bind "$1" "$root/mnt" && mount -o remount,ro,bind "$root/mnt" && shift; done
shift
exec chroot --userspec="$user" --groups= "$root" "$@"
"""


def buildah(*arguments: str | Path) -> str:
    """Run buildah with the tests' own store; returns what it prints."""
    places = ("--root", str(STORE / "root"), "--runroot", str(STORE / "run"))
    done = subprocess.run(["buildah", *places, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout.strip()


def build(target: str) -> str:
    """Build a target; returns the name of the image."""
    if _DEBIAN not in buildah("images", "--format", "{{.Name}}").split():
        STORE.mkdir(parents=True, exist_ok=True)
        system = STORE / "debian.tar"
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates", "bookworm", system], check=True)
        container = buildah("from", "scratch")
        buildah("add", container, system, "/")
        buildah("commit", "--rm", container, _DEBIAN)
        system.unlink()
    name = f"localhost/replica-audit-tests-{target}"
    # What reaches package index and mirror from here reaches them from a build, too. Java's package writes to the certificates.
    certificates = STORE / "certificates"
    shutil.copytree(_CERTIFICATES, certificates, ignore_dangling_symlinks=True, dirs_exist_ok=True)
    volumes = ["--volume", f"{certificates}:{_CERTIFICATES}:rw"]
    if _PIP.exists():
        volumes += ["--volume", f"{_PIP}:{_PIP}:ro"]
    given = ("--isolation=chroot", "--pull-never", "--layers", f"--build-arg=BASE={_DEBIAN}", *volumes)
    buildah("build", *given, "--target", target, "--tag", name, "--file", RECIPE, ROOT)
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image whose file system is mounted at `root`, and its configuration as OCI has it."""

    root: Path
    config: dict[str, Any]

    def run(
        self,
        *arguments: str,
        tmp: Path,
        log: Path,
        entry: bool = True,
        mounted: Path | None = None,
        variables: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the entry point with arguments, or these alone; `mounted` is /mnt, read-only."""
        environment = dict(one.split("=", 1) for one in self.config["Env"]) | (variables or {})
        words = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in environment.items())]
        words += [*(self.config["Entrypoint"] if entry else ()), *arguments]
        start = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            _START,
            "start",
            self.root,
            tmp,
            log,
            self.config["User"],
        ]
        command = [str(word) for word in (*start, *([mounted] if mounted else []), "--", *words)]
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


@contextmanager
def mounted_image(name: str) -> Iterator[Image]:
    """Mount a built image."""
    config: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", name))["OCIv1"]["config"]
    container = buildah("from", "--pull-never", name)
    try:
        yield Image(root=Path(buildah("mount", container)), config=config)
    finally:
        buildah("rm", container)
