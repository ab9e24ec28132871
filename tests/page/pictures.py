"""The pictures of the documents: real pages of the sample, light and dark, in the tests' browser. `tools/pictures.sh` runs it."""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from replica_audit import cli
from tests.page.browser import Browser, started

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "images"
_SAMPLE = ROOT / "tests" / "data" / "sample"
_WIDTH = 1000


class Picture(NamedTuple):
    """A picture, NAME.png and NAME-dark.png: a part of the page of a cluster of the sample, `scale` pixels for each of the page's."""

    name: str
    cluster: str
    anchor: str  # of the partition; empty: the top of the page
    place: str  # a script that returns the part
    scale: float


_DRAWING = """
const drawn = document.querySelector(`#${CSS.escape(arguments[0])} svg`).getBoundingClientRect();
return { x: drawn.x + scrollX - 6, y: drawn.y + scrollY - 4, width: drawn.width + 12, height: drawn.height + 8 };
"""
_TOP = """
const shown = document.querySelector('#finding-table tbody tr').getBoundingClientRect();
return { x: 0, y: 0, width: document.documentElement.clientWidth, height: shown.bottom + scrollY + 12 };
"""
PICTURES = (
    Picture("partition", "committed-loss", "billing-0", _DRAWING, 1.155),
    Picture("page", "committed-loss", "", _TOP, 1),
    Picture("hole", "kafka-1.1.1-kip279-scenario-1-all", "orders-2", _DRAWING, 1),
)


def make(folder: Path) -> None:
    """Write every picture in both themes."""
    with tempfile.TemporaryDirectory() as work, started(Path(work)) as browser:
        for picture in PICTURES:
            page = Path(work) / f"{picture.name}.html"
            cli.main(["triage", "--input", str(_SAMPLE / picture.cluster), "--what-if-leaders", "--html", str(page)])
            for theme, ending in (("light", ""), ("dark", "-dark")):
                (folder / f"{picture.name}{ending}.png").write_bytes(_taken(browser, page, picture, theme))


def _taken(browser: Browser, page: Path, picture: Picture, theme: str) -> bytes:
    browser.open(f"{page.as_uri()}#{picture.anchor}", theme=theme, size=(_WIDTH, 900))
    place = browser.run(picture.place, picture.anchor) | {"scale": picture.scale}
    made = browser.command("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=place)
    return base64.b64decode(made["data"])


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
