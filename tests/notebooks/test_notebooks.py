"""The notebooks run on real audits from the first cell to the last, show what the tables say, and are stored as they show it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from replica_audit.notebook.run import Run
from replica_audit.notebook.warehouse import Warehouse
from tests.notebooks.execution import NOTEBOOKS, ROOT, RUNS, execute, outputs, texts, without_paths
from tests.notebooks.test_partition import spec_data

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
NAMES = ["cluster_overview", "investigate_partition", "protocol_scenarios"]
# what a cell of a test prints for the test to read
TELL = "import json; print(json.dumps({value}))"


def notebook(name: str) -> Path:
    return ROOT / "notebooks" / f"{name}.ipynb"


def told(executed: Any) -> Any:
    """What the cell behind the last one printed."""
    return json.loads(executed.cells[-1].outputs[0]["text"])


def plots(executed: Any) -> list[dict[str, Any]]:
    """The specifications of the plots that are shown, in order."""
    found = [output["data"] for output in outputs(executed) if "data" in output]
    return [value for data in found for kind, value in data.items() if kind.startswith("application/vnd.vegalite")]


def values(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for rows in spec["datasets"].values() for row in rows]


def test_there_are_these_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == NAMES


@pytest.fixture(scope="module")
def investigated(nights: Path) -> Any:
    parameters = [f"warehouse = {str(nights / 'warehouse')!r}"]
    return execute(notebook("investigate_partition"), nights, parameters)


@pytest.fixture(scope="module")
def overview(nights: Path) -> Any:
    return execute(notebook("cluster_overview"), nights, [f"warehouse = {str(nights / 'warehouse')!r}"])


@pytest.fixture(scope="module")
def scenarios(nights: Path) -> Any:
    return execute(notebook("protocol_scenarios"), nights, ["n = 20"], ["play.widget.children[0].value = 25"])


def interactive_outputs(executed: Any) -> list[str]:
    """What the interactive cell shows last, as text."""
    models = executed.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"].values()
    (shown,) = (model["state"]["outputs"] for model in models if model["model_name"] == "OutputModel")
    return [output["data"]["text/plain"] for output in shown]


@pytest.fixture
def executed(request: pytest.FixtureRequest, name: str) -> Any:
    fixture = {"investigate_partition": "investigated", "cluster_overview": "overview", "protocol_scenarios": "scenarios"}[name]
    return request.getfixturevalue(fixture)


@pytest.mark.parametrize("name", NAMES)
def test_no_cell_fails_or_warns(name: str, executed: Any) -> None:
    own = {cell.id for cell in nbformat.read(notebook(name), as_version=4).cells}
    for output in outputs(executed):
        assert output["output_type"] != "error", output
        assert output.get("name") != "stderr", output
    for cell in executed.cells:
        tags = cell.metadata.get("tags", ())
        if cell.id in own and cell.cell_type == "code" and "parameters" not in tags and not cell.source.startswith(("from ", "import ")):
            assert cell.outputs, f"shows nothing: {cell.source}"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_stored_is_what_it_shows(nights: Path, name: str, executed: Any) -> None:
    """Else: python -m tests.notebooks.execution."""
    stored = nbformat.read(notebook(name), as_version=4)
    shown = texts(executed, without_paths(nights))[: len(texts(stored))]
    assert texts(stored) == shown


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_notebook_shows_pictures_is_small_and_names_no_machine(name: str) -> None:
    content = notebook(name).read_bytes()
    assert len(content) < 300_000
    assert b"/tmp/" not in content
    assert b"/home/" not in content
    stored = nbformat.read(notebook(name), as_version=4)
    nbformat.validate(stored)
    pictures = [output["data"]["image/svg+xml"] for output in outputs(stored) if "image/svg+xml" in output.get("data", {})]
    assert len(pictures) >= 2
    assert all(re.match(r'<svg role="img" aria-label="[^"]{30,}"', picture) for picture in pictures)


@pytest.mark.parametrize("name", NAMES)
def test_it_begins_with_what_it_is_for_and_its_parameters(name: str) -> None:
    stored = nbformat.read(notebook(name), as_version=4)
    assert stored.cells[0].cell_type == "markdown"
    assert stored.cells[0].source.startswith("# ")
    first_code = next(cell for cell in stored.cells if cell.cell_type == "code")
    assert first_code.metadata["tags"] == ["parameters"]
    assert sum("parameters" in cell.metadata.get("tags", ()) for cell in stored.cells) == 1


def test_it_shows_the_partition_of_the_tables(investigated: Any, audits: Warehouse) -> None:
    partition = audits.latest().partition("billing-0")
    lineage, batches = plots(investigated)
    key = str
    assert sorted(values(lineage), key=key) == sorted(spec_data(partition.lineage()), key=key)
    both = partition.side_by_side()
    assert len(values(batches)) == both["leader_last_offset"].notna().sum() + both["follower_last_offset"].notna().sum()
    explained = next(output["text"] for output in outputs(investigated) if output["output_type"] == "stream")
    verdict = partition.verdicts().iloc[0]
    assert f"\n\nbilling-0: follower 1 of leader 2\n  {verdict['verdict']} ({verdict['severity']})" in explained
    gone = next(cell for cell in investigated.cells if "gone = " in cell.source)
    assert len(re.findall(r"\n\d+ +\d+ ", gone.outputs[0]["data"]["text/plain"])) >= 1


@pytest.mark.parametrize(
    ("partition", "cluster_of"),
    [("ledger-0", None), ("vault-1", None), ("audit-2", None), ("__consumer_offsets-0", "billing")],
)
def test_any_partition_can_be_looked_at(nights: Path, full: Run, partition: str, cluster_of: str | None) -> None:
    cluster = full.verdicts(topic=cluster_of)["cluster_id"].iloc[0] if cluster_of else None
    parameters = [
        f"warehouse = {str(nights / 'warehouse')!r}",
        f"run_id = {RUNS[1]!r}",
        f"partition = {partition!r}",
        f"cluster = {cluster!r}",
    ]
    executed = execute(notebook("investigate_partition"), nights, parameters, [TELL.format(value="[looked_at.name, run.run_id]")])
    assert told(executed) == [partition, RUNS[1]]


def test_it_shows_the_history_of_the_tables(overview: Any, audits: Warehouse) -> None:
    history, lost, heat = plots(overview)
    key = str
    assert sorted(values(history), key=key) == sorted(spec_data(audits.history()), key=key)
    assert sorted(values(lost), key=key) == sorted(spec_data(audits.lost_over_time()), key=key)
    assert sorted(values(heat), key=key) == sorted(spec_data(audits.latest().heatmap()), key=key)
    assert "resolvedcriticalcommitted_loss1" in "".join(texts(overview))


def test_the_sliders_change_what_is_shown(scenarios: Any) -> None:
    """The control of n is moved to 25: KIP-101 then leaves a hole."""
    shown = interactive_outputs(scenarios)
    assert shown[0].startswith("KIP-279, scenario 1, n = 25. ")
    assert "kip-101: cut to 21, records are missing for good" in shown[0]
    assert re.search(r"kip-101 +21 +15 ", shown[1])


def test_a_wrong_partition_is_one_sentence_in_the_notebook(nights: Path) -> None:
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError) as raised:
        execute(notebook("investigate_partition"), nights, [f"warehouse = {str(nights / 'warehouse')!r}", "partition = 'biling-0'"])
    assert "UsageError: --partition biling-0: not in run" in str(raised.value)
    assert "did you mean billing-0" in str(raised.value)
    assert "Traceback" not in raised.value.traceback
