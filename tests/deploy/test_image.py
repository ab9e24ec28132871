"""deploy/image: what the recipe copies is there; and, where REPLICA_AUDIT_IMAGE asks for it, the images built and run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.images import RECIPE, Image, build, mounted_image
from tests.deploy.manifests import containers, of_kind, pod_of
from tests.formats.rights import open_to_all
from tests.house.checkout import ROOT

TEXT = RECIPE.read_text(encoding="utf-8")
SAMPLE = ROOT / "tests" / "data" / "sample" / "committed-loss"
TMP = "/tmp"  # noqa: S108 - a container's own
BUILT = pytest.mark.skipif(not os.environ.get("REPLICA_AUDIT_IMAGE"), reason="takes minutes and 5 GB: REPLICA_AUDIT_IMAGE=1, as root")


def test_what_is_copied_is_there() -> None:
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.MULTILINE) for word in line.split()]
    assert len(copied) > 8
    assert not [path for path in copied if not (ROOT / path).exists()]


def test_it_is_the_user_and_the_place_that_the_pods_expect() -> None:
    (cron,) = of_kind("kubernetes", "CronJob")
    security = pod_of(cron)["securityContext"]
    assert set(re.findall(r"^USER (.*)$", TEXT, re.MULTILINE)) == {f"{security['runAsUser']}:{security['runAsGroup']}"}
    assert containers(cron)[0]["args"][0] == "audit"  # the entry point is the program, whose first word is a command
    names = re.findall(r"-t (replica-audit:\S+)", TEXT)
    assert containers(cron)[0]["image"].endswith(f"/{names[1]}")
    (collect,) = of_kind("strimzi", "Job")
    assert containers(collect)[0]["image"].endswith(f"/{names[0]}")


@pytest.fixture(scope="module")
def base() -> Iterator[Image]:
    with mounted_image(build("base")) as image:
        yield image


@pytest.fixture(scope="module")
def full() -> Iterator[Image]:
    with mounted_image(build("full")) as image:
        yield image


@pytest.fixture
def place() -> Iterator[Path]:
    """What the kubelet makes for a container: a folder that its user may write to, and a file for its message."""
    with open_to_all() as folder:
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        (folder / "log").touch()
        (folder / "log").chmod(0o666)
        yield folder


@BUILT
@pytest.mark.slow
def test_triage_in_the_base(base: Image, place: Path) -> None:
    given = ("triage", "--input", "/mnt", "--termination-message", "/dev/termination-log")
    done = base.run(*given, tmp=place / "tmp", log=place / "log", mounted=SAMPLE)
    assert done.returncode == 1, done.stderr
    assert "critical: committed_loss" in done.stdout
    assert json.loads((place / "log").read_text(encoding="utf-8"))["exit_code"] == 1


@BUILT
@pytest.mark.slow
def test_the_base_cannot_write_to_itself_and_is_nobody(base: Image, place: Path) -> None:
    asked = "id -u; id -g; touch /opt/x; touch /dev/x; touch /mnt/x; echo $?"
    done = base.run("sh", "-c", asked, tmp=place / "tmp", log=place / "log", entry=False, mounted=SAMPLE)
    assert done.stdout.split() == ["10001", "10001", "1"]
    assert done.stderr.count("Read-only file system") == 3


@BUILT
@pytest.mark.slow
def test_collect_in_the_base(base: Image, place: Path) -> None:
    given = ("collect", "--log-dir", "/mnt", "--output", f"{TMP}/collected")
    done = base.run(*given, tmp=place / "tmp", log=place / "log", mounted=SAMPLE / "broker-1" / "data-0")
    assert done.returncode == 0, done.stderr
    assert (place / "tmp" / "collected" / "broker-1" / "manifest.json").exists()


@BUILT
@pytest.mark.slow
@pytest.mark.spark
def test_audit_in_the_full_image_as_the_cronjob_starts_it(full: Image, place: Path) -> None:
    given = ("audit", "--input", "/mnt", "--warehouse", f"{TMP}/audits", "--termination-message", "/dev/termination-log")
    done = full.run(*given, tmp=place / "tmp", log=place / "log", mounted=SAMPLE)
    assert done.returncode == 1, done.stderr
    assert json.loads((place / "log").read_text(encoding="utf-8"))["codes"]["committed_loss"]


@BUILT
@pytest.mark.slow
@pytest.mark.spark
def test_the_driver_of_the_spark_operator(full: Image, place: Path) -> None:
    """The role that Spark gives the driver's container, with the settings of the recipe, on a master that needs no cluster."""
    (scheduled,) = of_kind("spark-operator", "ScheduledSparkApplication")
    template = scheduled["spec"]["template"]
    properties = "".join(f"{name} {value}\n" for name, value in template["sparkConf"].items())
    (place / "tmp" / "spark.properties").write_text(properties, encoding="utf-8")
    submit = ("driver", "--master", "local[2]", "--properties-file", f"{TMP}/spark.properties", template["mainApplicationFile"])
    arguments = ("--input=/mnt", f"--warehouse={TMP}/audits", "--termination-message=/dev/termination-log")
    variables = {"SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1"}
    done = full.run(*submit, *arguments, tmp=place / "tmp", log=place / "log", mounted=SAMPLE, variables=variables)
    assert done.returncode == 1, done.stderr
    assert json.loads((place / "log").read_text(encoding="utf-8"))["codes"]["committed_loss"]


@BUILT
@pytest.mark.slow
@pytest.mark.spark
def test_an_executor_of_the_spark_operator_looks_for_its_driver(full: Image, place: Path) -> None:
    """Without a cluster there is none: what is seen is that Spark takes what it is started with, and asks for the driver's settings."""
    variables = {
        "SPARK_EXECUTOR_MEMORY": "256m",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_EXECUTOR_POD_NAME": "one",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:1",
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=1",
        "SPARK_JAVA_OPT_1": "-Dspark.rpc.io.connectionTimeout=1s",
    }
    done = full.run("executor", tmp=place / "tmp", log=place / "log", variables=variables)
    assert done.returncode != 0
    assert "Failed to connect to /127.0.0.1:1" in done.stdout + done.stderr
