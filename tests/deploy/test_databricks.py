"""deploy/databricks against the classes of Databricks' own SDK, and its task, run."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import DEPLOY, Document, keys, misspelt, parsed
from tests.house.checkout import ROOT

BUNDLE: Document = yaml.safe_load((DEPLOY / "databricks" / "databricks.yml").read_text(encoding="utf-8"))
JOB: Document = BUNDLE["resources"]["jobs"]["replica_audit"]
SAMPLE = ROOT / "tests" / "data" / "sample" / "committed-loss"


def differs(settings: Document) -> bool:
    """Whether the SDK takes other settings than these: what it does not know it drops in silence."""
    from databricks.sdk.service.jobs import JobSettings  # takes seconds to load, which each worker would spend while it collects

    return bool(JobSettings.from_dict(settings).as_dict() != settings)


def test_databricks_knows_every_field() -> None:
    assert BUNDLE.keys() == {"bundle", "targets", "resources"}
    assert not differs(JOB)


def test_no_key_can_be_misspelt() -> None:
    places = [place for place in keys(JOB) if not {"spark_conf", "spark_env_vars"} & set(place[:-1])]
    assert len(places) > 30
    for place in places:
        assert differs(misspelt(JOB, place)), place


def test_the_task_gives_options_that_the_program_has() -> None:
    (task,) = JOB["tasks"]
    given = parsed(task["spark_python_task"]["parameters"])
    assert given["warehouse"] == "{{job.parameters.warehouse}}"
    assert {parameter["name"] for parameter in JOB["parameters"]} == {"input", "warehouse"}
    assert (ROOT / task["spark_python_task"]["python_file"]).is_file()
    assert task["job_cluster_key"] in [cluster["job_cluster_key"] for cluster in JOB["job_clusters"]]
    assert task["max_retries"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["triage", "--input", str(SAMPLE)], 1, "RuntimeError: exit code 1: there are findings at or above 'error'; {"),
        (["triage", "--input", "nowhere"], 1, "RuntimeError: exit code 2: there is nothing to audit"),
        (["triage", "--no-such-option"], 1, "RuntimeError: exit code 2\n"),
        (["triage", "--input", str(SAMPLE), "--cost"], 0, ""),
    ],
)
def test_the_task_fails_with_the_meaning_of_the_exit_code(arguments: list[str], code: int, said: str) -> None:
    # what a cluster of Databricks has in its environment, and what the audit must not see
    cluster: dict[str, Any] = {"SPARK_HOME": "/nowhere", "PYSPARK_PYTHON": "/nowhere/python", "PYTHONPATH": "/nowhere/site"}
    environment = {**os.environ, **cluster, "REPLICA_AUDIT_HOME": str(ROOT)}
    task = [sys.executable, str(DEPLOY / "databricks" / "audit_task.py"), *arguments]
    done = subprocess.run(task, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
