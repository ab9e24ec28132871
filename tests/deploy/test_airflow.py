"""deploy/airflow: its commands and exit codes; loaded by Airflow itself where REPLICA_AUDIT_AIRFLOW names a Python that has it."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
from typing import Any

import pytest

from tests.deploy.manifests import DEPLOY, parsed

DAG = DEPLOY / "airflow" / "replica_audit_nightly.py"
AIRFLOW = os.environ.get("REPLICA_AUDIT_AIRFLOW", "")
# what Airflow's own loader makes of the file, as JSON
LOAD = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder=sys.argv[1])
dags = {
    name: {
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "tasks": {
            task.task_id: {"command": task.bash_command, "skip": list(task.skip_on_exit_code), "retries": task.retries,
                           "after": sorted(task.upstream_task_ids), "rule": task.trigger_rule.value}
            for task in dag.tasks
        },
    }
    for name, dag in bag.dags.items()
}
print("\\n" + json.dumps({"errors": list(bag.import_errors.values()), "dags": dags}))
"""


def operators() -> dict[str, dict[str, Any]]:
    """What each operator of the file is given: its strings put together, its numbers, by the id of its task."""
    tree = ast.parse(DAG.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            names[line.targets[0].id] = ast.literal_eval(line.value)
    found: dict[str, dict[str, Any]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "BashOperator":
            given = {
                keyword.arg: eval(compile(ast.Expression(keyword.value), str(DAG), "eval"), names)  # noqa: S307 - our own file
                for keyword in node.keywords
                if keyword.arg and not isinstance(keyword.value, ast.Call)
            }
            found[given["task_id"]] = given
    return found


def options(command: str) -> dict[str, Any]:
    """The options of a command of the file, with every template filled."""
    words = shlex.split(re.sub(r"\{\{.*?\}\}", "2026-01-02", command))
    assert words[0] == "exec" and words[1].endswith("/spark-submit.sh")
    return parsed(words[2:])


def test_the_commands_have_options_that_the_program_has() -> None:
    audit, page = (options(operators()[name]["bash_command"]) for name in ("audit", "page"))
    assert audit["run_id"] == page["run_id"] and audit["warehouse"] == page["warehouse"]
    assert audit["take_over"]


def test_each_exit_code_has_its_colour() -> None:
    tasks = operators()
    assert tasks["audit"]["skip_on_exit_code"] == 3  # and every other one but 0 fails the task
    assert (tasks["audit"]["retries"], tasks["page"]["trigger_rule"]) == (0, "all_done")


@pytest.mark.slow
@pytest.mark.skipif(not AIRFLOW, reason="takes Airflow, 260 MB: REPLICA_AUDIT_AIRFLOW=PYTHON_OF_AN_ENVIRONMENT_THAT_HAS_IT")
def test_airflow_loads_it(tmp_path: Any) -> None:
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    folder = tmp_path / "dags"
    folder.mkdir()
    for name, change in (("right.py", ("", "")), ("wrong.py", ("skip_on_exit_code", "skip_on_exit_cod"))):
        text = DAG.read_text(encoding="utf-8")
        (folder / name).write_text(text.replace(*change) if change[0] else text, encoding="utf-8")
        loaded = subprocess.run([AIRFLOW, "-c", LOAD, folder / name], capture_output=True, text=True, env=environment, check=False)
        assert loaded.returncode == 0, loaded.stderr
        said = json.loads(loaded.stdout.splitlines()[-1])
        if change[0]:
            assert "skip_on_exit_cod" in said["errors"][0]
            continue
        assert said["errors"] == []
        (dag,) = said["dags"].values()
        assert (dag["max_active_runs"], dag["catchup"]) == (1, False)
        assert dag["tasks"]["audit"]["skip"] == [3] and dag["tasks"]["audit"]["retries"] == 0
        assert dag["tasks"]["page"]["after"] == ["audit"] and dag["tasks"]["page"]["rule"] == "all_done"
        assert {name: task["command"] for name, task in dag["tasks"].items()} == {
            name: task["bash_command"] for name, task in operators().items()
        }
