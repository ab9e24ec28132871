"""The documents as a site: built by the documented command from what the project tracks, and looked at in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.house.checkout import ROOT, project_files
from tests.page.browser import Browser, started

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
# what a page shows of each kind, on the site and where the repository shows the same file
_SHOWN = ("h1", "h2", "h3", "li", "tr", "pre", "blockquote", "img")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's files alone, with the environment in which the tests run."""
    made = tmp_path_factory.mktemp("checkout")
    for path in project_files():
        relative = path.relative_to(ROOT)
        if relative.parts[0] in ("conf", "docs", "tools", "benchmarks") or len(relative.parts) == 1:
            (made / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, made / relative)
    (made / ".venv").symlink_to(sys.prefix)
    return made


@pytest.fixture(scope="module")
def site(checkout: Path) -> Path:
    done = _build(checkout)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr == f"the site is in {checkout / 'site'}: open index.html\n"
    return checkout / "site"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("profile")) as made:
        yield made


def _build(checkout: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([checkout / "tools/site.sh"], cwd=checkout, capture_output=True, text=True, check=False)


class _Page(HTMLParser):
    """Counts the elements of the text itself, and gathers what the page loads and where it links."""

    def __init__(self, text: str, *, within: str = "") -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        self.loads: list[str] = []
        self.navigation: set[str] = set()
        self._within, self._inside, self._nav = within, not within, 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._inside = self._inside or tag == self._within
        if str(given.get("class")).startswith("admonition ") and tag == "div":
            tag = "blockquote"  # a repository page shows a warning as a quotation with a title
        self._nav += tag == "nav"
        if self._inside and tag in _SHOWN:
            self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag == "a" and self._nav and given.get("href"):
            self.navigation.add(str(given["href"]).split("#")[0])
        if tag in ("script", "img", "link", "iframe", "source", "video", "object", "embed") and given.get("rel") not in ("next", "prev"):
            self.loads += [str(given[name]) for name in ("src", "href", "srcset", "data") if given.get(name)]

    def handle_endtag(self, tag: str) -> None:
        self._nav -= tag == "nav"
        self._inside = self._inside and tag != self._within


def _pages(site: Path) -> dict[str, _Page]:
    return {
        str(path.relative_to(site)): _Page(path.read_text(encoding="utf-8"), within="article")
        for path in site.rglob("*.html")
        if path.name != "404.html"
    }


def test_every_document_is_a_page_that_the_navigation_reaches(checkout: Path, site: Path) -> None:
    pages = _pages(site)
    documents = [*checkout.glob("*.md"), *(checkout / "docs").rglob("*.md"), *(checkout / "benchmarks").glob("*.md")]
    expected = {str(path.relative_to(checkout).with_suffix(".html")).replace("README", "index") for path in documents}
    assert expected == pages.keys()
    reached = {str((site / target).resolve().relative_to(site.resolve())) for target in pages["index.html"].navigation if target != "."}
    assert expected - {"index.html"} <= reached


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = {target for page in _pages(site).values() for target in page.loads}
    assert any(target.endswith(".js") for target in loads)
    assert not [target for target in loads if re.match(r"(\w+:)?//", target)]
    for name, page in _pages(site).items():
        assert not [target for target in page.loads if not (site / name).parent.joinpath(target).exists()]
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert len(styles) > 2
    assert not [found for style in styles for found in re.findall(r"(?:url\(|@import)[\s\"']*(?:\w+:)?//[^)]*", style)]


def test_a_page_shows_what_the_repository_shows(checkout: Path, site: Path) -> None:
    """Markdown has dialects: a list that one of them takes for a paragraph has lost its items."""
    as_repository = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    different = {}
    for name, page in _pages(site).items():
        source = checkout / name.replace("index.html", "README.md").replace(".html", ".md")
        expected = _Page(as_repository.render(source.read_text(encoding="utf-8"))).counts
        if page.counts != expected:
            different[name] = (page.counts, expected)
    assert not different


def test_the_search_holds_the_words_of_the_documents(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    assert {entry["location"].split("#")[0] for entry in found if "truncate-on-fetch" in entry["text"]} >= {"index.html"}


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("docs/limits.md", "[gone](no-such-page.md)", "no-such-page.md"),
        ("docs/limits.md", "[gone](verdicts.md#no-such-anchor)", "no-such-anchor"),
        ("docs/unreached.md", "# A page that no navigation names", "unreached.md"),
    ],
    ids=["link", "anchor", "navigation"],
)
def test_what_leads_nowhere_ends_the_build(checkout: Path, tmp_path: Path, file: str, text: str, complaint: str) -> None:
    broken = tmp_path / "checkout"
    shutil.copytree(checkout, broken, symlinks=True, ignore=shutil.ignore_patterns(".cache"))
    with (broken / file).open("a", encoding="utf-8") as changed:
        changed.write(f"\n\n{text}\n")
    done = _build(broken)
    assert done.returncode == 1
    assert complaint in done.stderr


def test_a_reader_searches_switches_to_dark_and_prints_without_a_network(browser: Browser, site: Path) -> None:
    browser.open((site / "docs" / "verdicts.html").as_uri())
    assert browser.run("return document.body.dataset.mdColorScheme") == "default"
    browser.open((site / "docs" / "verdicts.html").as_uri(), theme="dark")
    assert browser.run("return document.body.dataset.mdColorScheme") == "slate"
    browser.run("document.querySelector('#__search').click(); document.querySelector('.md-search__input').focus()")
    browser.driver.find_element("css selector", ".md-search__input").send_keys("hanging transaction")
    browser.wait(lambda: "Glossary" in browser.texts(".md-search-result__item h1"), "nothing is found")
    browser.open((site / "docs" / "verdicts.html").as_uri(), media="print")
    assert browser.run("return getComputedStyle(document.querySelector('.md-sidebar')).display") == "none"
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.complaints() == []
    assert {url.split(":")[0] for url in browser.requests()} == {"file"}
