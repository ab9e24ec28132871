"""The pictures of the README, of a partition of the sample: `python -m tests.page.readme_pictures` makes them in the tests' browser."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

from replica_audit import cli
from tests.page.browser import started

ROOT = Path(__file__).resolve().parents[2]
_SAMPLE = ROOT / "tests" / "data" / "sample" / "committed-loss"
_THEMES = {"light": "partition.png", "dark": "partition-dark.png"}
_PLACE = """
const place = document.querySelector('#billing-0 svg').getBoundingClientRect();
return { x: place.x + scrollX - 6, y: place.y + scrollY - 4, width: place.width + 12, height: place.height + 8, scale: 1.155 };
"""


def make(folder: Path) -> None:
    """Write partition.png and partition-dark.png, some 1050 pixels wide."""
    with tempfile.TemporaryDirectory() as work:
        page = Path(work) / "page.html"
        cli.main(["triage", "--input", str(_SAMPLE), "--what-if-leaders", "--html", str(page)])
        with started(Path(work)) as browser:
            for theme, name in _THEMES.items():
                browser.open(f"{page.as_uri()}#billing-0", theme=theme, size=(1000, 900))
                place = browser.run(_PLACE)
                made = browser.command("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=place)
                (folder / name).write_bytes(base64.b64decode(made["data"]))


if __name__ == "__main__":
    make(ROOT / "docs" / "images")
