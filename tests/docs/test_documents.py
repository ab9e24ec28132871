"""What the documents say of codes, verdicts, tables and each other, held against the code."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
VERDICTS = (ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8")
# places where the code of a problem is written: Problem(code="..."), Damage(code="..."), tell(path, kind, "...") and their kind
_CODE = re.compile(
    r"""code\ ?=\ ?"([a-z-]+)"            # by name
      | _tell\([^"]*(?:"[a-z-]+",\s*)?"([a-z]+(?:-[a-z]+)+)",
      | (?:_damage|problem|Unusable)\((?:[^"()]|\([^()]*\))*"([a-z]+(?:-[a-z]+)+)"
    """,
    re.VERBOSE,
)


@pytest.mark.parametrize(("tool", "document"), [("tables_doc.py", "tables.md"), ("dbt_sources.py", "dbt/sources.yml")])
def test_the_tables_are_described_as_they_are(tool: str, document: str) -> None:
    made = subprocess.run([sys.executable, str(ROOT / "tools" / tool)], capture_output=True, text=True, check=True)
    assert made.stdout == (ROOT / "docs" / document).read_text(encoding="utf-8")


def test_the_licences_are_those_of_what_is_installed() -> None:
    made = subprocess.run([sys.executable, str(ROOT / "tools" / "licences.py")], capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr) == (0, "")
    assert f"\n\n{made.stdout}\n" in (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")


def test_a_package_of_another_version_is_named(tmp_path: Path) -> None:
    (tmp_path / "conf" / "requirements").mkdir(parents=True)
    (tmp_path / "conf" / "requirements" / "run.txt").write_text(
        "pyyaml==0.1 \\\n    --hash=sha256:0\nno-such-package==1\n", encoding="utf-8"
    )
    (tmp_path / "tools").mkdir()
    script = shutil.copy(ROOT / "tools" / "licences.py", tmp_path / "tools")
    made = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert made.returncode == 1
    assert "is installed, 0.1 is listed\nno-such-package is not installed\n" in made.stderr


def test_a_bill_of_materials_needs_an_environment(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    script = shutil.copy(ROOT / "tools" / "sbom.sh", tmp_path / "tools")
    made = subprocess.run([script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 2
    assert "there is no .venv: run ./spark-submit.sh once" in made.stderr
    assert not (tmp_path / "sbom.json").exists()


def test_every_code_of_a_problem_is_named() -> None:
    found: dict[str, Path] = {}
    for path in (ROOT / "lib").rglob("*.py"):
        for match in _CODE.finditer(path.read_text(encoding="utf-8")):
            found[next(code for code in match.groups() if code)] = path
    assert len(found) > 40, "codes are written in another way than this test looks for"
    assert {"crc-mismatch", "link-loop", "torn-batch", "unknown-broker"} <= found.keys()
    assert not {code: str(path) for code, path in found.items() if f"`{code}`" not in VERDICTS}


def test_links_lead_somewhere() -> None:
    pages = [*sorted(ROOT.glob("*.md")), *DOCS]
    links = [(page, target) for page in pages for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))]
    assert len(links) > 100
    for document, target in links:
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = document.parent / path if path else document
        assert linked.exists(), f"{document.name} links to {target}"
        if anchor and linked.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{document.name} links to {target}"


def test_every_document_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [page for page in map(str, (path.relative_to(ROOT) for path in DOCS)) if page not in readme]
