"""The page in a real browser: it renders, filters, sorts, can be linked into, heard, printed, read on a phone, and fetches nothing."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from selenium.webdriver.common.keys import Keys

from replica_audit import cli
from replica_audit.config import Settings
from replica_audit.errors import visible
from replica_audit.report.page.page import render
from tests.page.browser import DESKTOP, PHONE, Browser
from tests.page.conftest import SAMPLE
from tests.page.runs import HOSTILE, cluster, finding, page_data
from tests.support.warehouse import STARTED, write_warehouse

PARTITION, RECORDS, STATUS = 2, 6, 8
OBEYED = ["\x1b", "\x07", "\x00", "\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\x85"]


# three partitions of each cluster but the first, whose consumer offsets have two followers each
TILES = ["12 committed loss", "3 log matching violation", "1 lagging", "5 identical"]


def cells(browser: Browser, column: int) -> list[str]:
    return browser.texts(f"#rows > tr:not(.detail) > :nth-child({column})")


def unexplained(_key: Any) -> Any:
    raise AssertionError("no partition was to be drawn")


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A page of 450 findings without a picture, in two clusters that share a name."""
    found = [finding(topic=f"topic-{n // 30}", partition=n % 30, removed_records=n, follower_id=2 + n % 3) for n in range(449)]
    found.append(finding(cluster_id="d", topic="topic-0", partition=0))
    clusters = (cluster(label="east", verdicts={"stale_tail": 449}), cluster(cluster_id="d", label="west", verdicts={"stale_tail": 1}))
    made = tmp_path / "many.html"
    made.write_text(render(page_data(*found, clusters=clusters), [], unexplained), encoding="utf-8")
    return made


class TestWhatItShows:
    def test_it_renders_without_a_complaint_or_a_request(self, browser: Browser, page: Path) -> None:
        browser.open(page.as_uri())
        assert browser.texts("h1") == [
            "Committed records are missing from the leader: at least 114 offsets in 9 partitions, and 4 consumer groups are affected."
        ]
        assert "Keep the audited copy of broker 2, which alone has what is gone there" in browser.texts(".next")[0]
        assert browser.texts(".tile") == TILES
        assert browser.texts(".changes")[0].startswith("Compared with earlier runs: 3 new, 12 persisting.")
        assert browser.complaints() == []
        assert browser.requests() == {page.as_uri()}

    def test_over_http_it_asks_for_nothing_else(self, browser: Browser, page: Path) -> None:
        with served(page.parent) as address:
            browser.open(f"{address}/{page.name}")
            assert browser.texts("#shown") == ["15 of 15 findings shown."]
            assert browser.complaints() == []
            assert browser.requests() == {f"{address}/{page.name}"}

    def test_a_stranger_finds_what_was_lost_who_is_right_and_what_to_do(self, browser: Browser, page: Path) -> None:
        browser.open(page.as_uri())
        said = " ".join(browser.texts("#billing-0")[0].split())
        assert "Broker 1 has since truncated to 10, according to its server.log: it has lost offsets 10..29, 20 records." in said
        assert "20 of these offsets were committed and are not on the leader." in said
        assert "the committed records are on broker 1 and not on the leader" in said
        assert "Choose a leader: broker 2 (leads now): nothing is lost; broker 1 has already truncated 20 offsets" in said
        assert "Keep the audited copy of broker 1, which alone has what is gone there" in said
        drawn = browser.texts("#billing-0 svg.wide text")
        assert {"epoch 0", "epoch 2", "truncates 20 records, 20 committed offsets", "▶ truncate-on-fetch: to 10"} <= set(drawn)
        assert "bill-classic" in drawn
        rounds = [text for text in browser.texts("#ledger-0 svg.wide text") if text[:1].isdigit() and "fetches" in text]
        assert [text.split(" (")[0] for text in rounds] == [
            "1  fetches from 19",
            "2  fetches from 17",
            "3  fetches from 14",
            "4  fetches from 10",
        ]

    def test_without_scripts_the_worst_can_be_read(self, browser: Browser, page: Path) -> None:
        browser.open(page.as_uri(), scripts=False)
        try:
            source = browser.driver.page_source
            assert source.count("<tr>") > 15
            browser.driver.find_element("css selector", "#rows tr a[href='#billing-0']").click()
            browser.wait(lambda: browser.driver.current_url.endswith("#billing-0"), "the link is not followed")
            assert not browser.driver.find_element("id", "filters").is_displayed()
            assert "Without JavaScript" in source
        finally:
            browser.command("Emulation.setScriptExecutionDisabled", value=False)

    def test_hostile_names_are_text(self, browser: Browser, tmp_path: Path) -> None:
        data = page_data(
            finding(topic=HOSTILE, reason=f"reason {HOSTILE} 12", cluster_id=HOSTILE),
            clusters=(cluster(cluster_id=HOSTILE, label=HOSTILE, path=HOSTILE, protocol_reason=HOSTILE), cluster(label=f"{HOSTILE}2")),
            inputs=(HOSTILE,),
            versions=((HOSTILE, HOSTILE),),
            run_id=HOSTILE,
            warehouse=HOSTILE,
        )
        made = tmp_path / "hostile.html"
        made.write_text(render(data, [], unexplained), encoding="utf-8")
        browser.open(made.as_uri())
        assert "owned" not in browser.driver.title.split("Replica audit")[0]
        assert browser.run("return document.querySelectorAll('img, script:not([id]) ~ script:not([id])').length") == 0
        assert browser.texts("#rows th a") == [f"{visible(HOSTILE)}-0"]
        assert browser.texts("#rows .reason") == [f"reason {visible(HOSTILE)} 12"]
        assert browser.complaints() == []
        assert browser.requests() == {made.as_uri()}
        browser.follow("#rows th a")
        assert "--partition '</script>" in browser.texts("tr.detail code")[0]
        assert browser.complaints() == []

    @pytest.mark.parametrize("obeyed", OBEYED)
    def test_what_a_terminal_would_obey_or_hide_stands_there_as_an_escape(self, browser: Browser, tmp_path: Path, obeyed: str) -> None:
        name = f"a{obeyed}b"
        clusters = (cluster(cluster_id=name, label=name, path=name, protocol_reason=name), cluster(label="east"))
        findings = (finding(topic=name, reason=f"reason {name} 12", cluster_id=name), finding(topic=f"c{obeyed}", cluster_id=name))
        data = page_data(*findings, clusters=clusters, inputs=(name,), versions=((name, name),), run_id=name, warehouse=name)
        made = tmp_path / "obeyed.html"
        made.write_text(render(data, [], unexplained), encoding="utf-8")
        assert obeyed not in made.read_text(encoding="utf-8")
        browser.open(made.as_uri())
        assert obeyed not in browser.run("return document.documentElement.outerHTML + document.body.innerText + document.title")
        assert browser.texts("#rows th a")[0] == f"{visible(name)}-0"
        assert browser.texts("#rows .reason")[0] == f"reason {visible(name)} 12"
        browser.follow("#rows th a")
        assert visible(name) in browser.texts("tr.detail code")[0]
        assert browser.complaints() == []

    def test_a_whole_audit_of_replicas_with_such_names(self, browser: Browser, tmp_path: Path) -> None:
        """In headings, drawings, tables, links and what they lead to; the names of other scripts stay."""
        hostile, foreign = "x\u202egnillib\x1b[31m\x07", "\u0437\u0430\u043a\u0430\u0437\u044b-\u6ce8\u6587"
        root = tmp_path / "root"
        shutil.copytree(SAMPLE / "kafka-1.1.1-kip279-scenario-1-all", root)
        for path in sorted(root.rglob("orders-[01]")):
            path.rename(path.with_name(f"{hostile if path.name == 'orders-0' else foreign}-0"))
        write_warehouse(tmp_path / "warehouse", root, run_id="now", settings=Settings(what_if_leaders=True))
        made = tmp_path / "page.html"
        assert cli.main(["report", "--warehouse", str(tmp_path / "warehouse"), "--output", str(made)]) == 0
        text = made.read_text(encoding="utf-8")
        assert not [character for character in "\u202e\x1b\x07" if character in text]
        browser.open(made.as_uri())
        shown = browser.run("return document.documentElement.outerHTML + document.body.innerText + document.title")
        assert not [character for character in "\u202e\x1b\x07" if character in shown]
        assert {f"{visible(hostile)}-0", f"{foreign}-0"} <= set(browser.texts("#rows th a"))
        for link in browser.driver.find_elements("css selector", "#rows th a"):
            target = unquote(str(link.get_attribute("href")).partition("#")[2])
            assert browser.run("return document.getElementById(arguments[0]) !== null", target), target
        headings = " ".join(browser.texts("section h2, section h3, article h2, article h3"))
        assert visible(hostile) in headings
        assert foreign in headings
        assert browser.complaints() == []


class TestTheTable:
    def test_it_filters(self, browser: Browser, page: Path) -> None:
        browser.open(page.as_uri())
        box = browser.driver.find_element("id", "filter-text")
        box.send_keys("BILLING-1")
        assert cells(browser, PARTITION) == ["billing-1 committed-loss"]
        assert browser.texts("#shown") == ["1 of 1 findings shown, filtered from 15."]
        box.clear()
        box.send_keys("led alone in the ISR")
        assert len(cells(browser, PARTITION)) == 9
        box.clear()
        box.send_keys(" ", Keys.BACKSPACE)
        for name, value, count in (
            ("verdict", "log_matching_violation", 3),
            ("severity", "critical", 15),
            ("broker", "3", 3),
            ("status", "new", 3),
        ):
            browser.run(
                "const s = document.getElementById(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('input'))",
                f"filter-{name}",
                value,
            )
            assert len(cells(browser, PARTITION)) == count, name
            browser.run(
                "const s = document.getElementById(arguments[0]); s.value = ''; s.dispatchEvent(new Event('input'))", f"filter-{name}"
            )
        assert len(cells(browser, PARTITION)) == 15

    def test_it_sorts_by_mouse_and_keyboard(self, browser: Browser, page: Path) -> None:
        browser.open(page.as_uri())
        button = browser.driver.find_element("css selector", "th[data-key=records] button")
        button.click()
        numbers = [int(text) for text in cells(browser, RECORDS)]
        assert numbers == sorted(numbers, reverse=True)
        assert browser.run("return document.querySelector('th[data-key=records]').ariaSort") == "descending"
        button.send_keys(Keys.ENTER)
        assert [int(text) for text in cells(browser, RECORDS)] == sorted(numbers)
        browser.driver.find_element("css selector", "th[data-key=partition] button").send_keys(Keys.SPACE)
        names = [text.split()[0] for text in cells(browser, PARTITION)]
        assert names == sorted(names)
        assert browser.run("return [...document.querySelectorAll('th[aria-sort]')].map(th => th.ariaSort).filter(s => s !== 'none')") == [
            "ascending"
        ]

    def test_what_is_not_drawn_comes_on_demand(self, browser: Browser, many: Path) -> None:
        browser.open(many.as_uri())
        assert browser.texts("#shown") == ["100 of 450 findings shown."]
        browser.driver.find_element("id", "more").click()
        assert len(cells(browser, PARTITION)) == 450
        assert not browser.driver.find_element("id", "more").is_displayed()


class TestLinks:
    def test_into_a_partition(self, browser: Browser, page: Path) -> None:
        browser.open(f"{page.as_uri()}#ledger-2")
        assert browser.run("return document.activeElement.id") == "ledger-2"
        assert 0 <= browser.run("return document.getElementById('ledger-2').getBoundingClientRect().top") < 100
        browser.follow("#rows a[href='#billing-1']")
        assert browser.run("return document.activeElement.id") == "billing-1"

    def test_to_one_without_a_picture(self, browser: Browser, many: Path) -> None:
        browser.open(f"{many.as_uri()}#topic-9-7")
        assert browser.run("return document.activeElement.id") == "topic-9-7"
        assert "topic-9-7 east" in cells(browser, PARTITION)
        expected = "./spark-submit.sh explain --warehouse warehouse --run-id first --partition topic-9-7 --cluster c"
        assert browser.texts("tr.detail code") == [expected]
        top, bottom, height = browser.run("const r = document.activeElement.getBoundingClientRect(); return [r.top, r.bottom, innerHeight]")
        assert 0 <= top < bottom <= height

    def test_of_two_clusters_of_one_name_each_has_its_own(self, browser: Browser, many: Path) -> None:
        browser.open(f"{many.as_uri()}#west/topic-0-0")
        assert browser.texts("tr.detail code")[0].endswith("--partition topic-0-0 --cluster d")
        browser.open(f"{many.as_uri()}#topic-0-0")
        assert sorted(text.split()[1] for text in cells(browser, PARTITION) if text.startswith("topic-0-0 ")) == ["east", "west"]

    def test_every_inner_link_leads_somewhere(self, browser: Browser, page: Path) -> None:
        browser.open(page.as_uri())
        lost = browser.run(
            "return [...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))"
            ".filter(h => !h.startsWith('#') || !document.getElementById(decodeURIComponent(h.slice(1))))"
        )
        assert lost == []


class TestForEveryone:
    def test_the_keyboard_reaches_everything_in_sight(self, browser: Browser, page: Path) -> None:
        browser.open(page.as_uri())
        body = browser.driver.find_element("tag name", "body")
        body.send_keys(Keys.TAB)
        assert browser.run("return document.activeElement.className") == "skip"
        seen = []
        for _press in range(50):
            browser.driver.switch_to.active_element.send_keys(Keys.TAB)
            outline, tag = browser.run("const e = document.activeElement; return [getComputedStyle(e).outlineStyle, e.id || e.tagName]")
            assert outline == "solid", tag
            seen.append(tag)
        assert {"filter-text", "filter-verdict", "BUTTON"} <= set(seen)

    def test_names_for_who_listens(self, browser: Browser, page: Path) -> None:
        browser.open(page.as_uri())
        open_all(browser)
        assert browser.run("return [...document.querySelectorAll('input, select, textarea')].filter(i => !i.labels.length).length") == 0
        assert browser.run("return [...document.querySelectorAll('button')].filter(b => !b.textContent.trim()).length") == 0
        assert browser.run("return [...document.querySelectorAll('table')].filter(t => !t.caption?.textContent.trim()).length") == 0
        assert browser.run("return [...document.querySelectorAll('th')].filter(t => !t.scope).length") == 0
        referred = (
            "return [...document.querySelectorAll('[aria-labelledby]')].flatMap(e => e.getAttribute('aria-labelledby').split(' '))"
            ".filter(id => !document.getElementById(id)?.textContent.trim())"
        )
        assert browser.run(referred) == []
        assert browser.run("return document.querySelectorAll('svg.picture[role=img][aria-labelledby]').length") > 20
        assert browser.run("const ids = [...document.querySelectorAll('[id]')].map(e => e.id); return ids.length - new Set(ids).size") == 0
        assert browser.run("return ['header', 'nav', 'main'].map(t => document.querySelectorAll(t).length)") == [1, 1, 1]
        levels = browser.run("return [...document.querySelectorAll('h1,h2,h3,h4,h5')].map(h => +h.tagName[1])")
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))

    @pytest.mark.parametrize("theme", ["light", "dark"])
    @pytest.mark.parametrize("size", [DESKTOP, PHONE])
    def test_every_text_stands_out(self, browser: Browser, page: Path, theme: str, size: tuple[int, int]) -> None:
        browser.open(page.as_uri(), theme=theme, size=size)
        open_all(browser)
        weak, looked_at, background = browser.run(CONTRAST)
        assert weak == []
        assert looked_at > 1000
        assert (background < 0.1) == (theme == "dark")

    @pytest.mark.parametrize("size", [DESKTOP, PHONE, (320, 640), (800, 600)])
    def test_nothing_is_wider_than_the_screen_or_cut_off(self, browser: Browser, page: Path, many: Path, size: tuple[int, int]) -> None:
        for made in (many, page):
            browser.open(made.as_uri(), size=size)
            open_all(browser)
            assert browser.run("return document.documentElement.scrollWidth") <= size[0]
        assert browser.run(CLIPPED) == []
        assert browser.run("return getComputedStyle(document.querySelector('svg.wide')).display") == ("none" if size[0] < 992 else "block")

    def test_on_paper(self, browser: Browser, page: Path) -> None:
        browser.open(page.as_uri(), media="print", theme="dark")
        shown = "return getComputedStyle(document.querySelector(arguments[0])).display"
        assert [browser.run(shown, part) for part in ("nav", ".filters", "svg.narrow", "svg.wide")] == ["none", "none", "none", "block"]
        assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        browser.run("dispatchEvent(new Event('beforeprint'))")
        assert browser.run("return document.querySelectorAll('details:not([open])').length") == 0
        open_before = browser.run("dispatchEvent(new Event('afterprint')); return document.querySelectorAll('details[open]').length")
        assert open_before == 1
        weak, _looked_at, _background = browser.run(CONTRAST)
        assert weak == []
        assert len(browser.command("Page.printToPDF")["data"]) > 50_000


def open_all(browser: Browser) -> None:
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true })")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A folder over HTTP, on a port that is free."""
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


# Of every text in sight its contrast with what is painted behind it (WCAG 2.1, 1.4.3): those below 4.5, how many, and the page's luminance.
CONTRAST = """
const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return { rgb: n.slice(0, 3), a: n.length > 3 ? n[3] : 1 }; };
const light = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.a === 1) return colour.rgb;
    if (colour.a > 0) throw new Error('a background that lets another through');
  }
  return [255, 255, 255];
};
const weak = [];
let looked = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.textContent.trim() || element.closest('script, style, title, desc, noscript, option')) continue;
  if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
  looked += 1;
  const style = getComputedStyle(element), inPicture = element.closest('svg');
  const colour = parse(inPicture ? style.fill : style.color);
  let backgrounds = [behind(inPicture ? inPicture.parentElement : element)];
  if (inPicture) {
    const own = element.getBoundingClientRect(), x = own.x + own.width / 2, y = own.y + own.height / 2;
    const bars = [...inPicture.querySelectorAll('rect.epoch')].filter((bar) => {
      const r = bar.getBoundingClientRect();
      return r.left <= x && x <= r.right && r.top <= y && y <= r.bottom;
    });
    if (bars.length) backgrounds = bars.map((bar) => parse(getComputedStyle(bar).fill).rgb);
  }
  for (const background of backgrounds) {
    const found = ratio(colour.rgb, background);
    if (found < 4.5) weak.push([node.textContent.trim().slice(0, 40), found.toFixed(2)]);
  }
}
return [weak, looked, light(behind(document.body))];
"""

# Words of pictures that reach beyond the picture, or cover other words.
CLIPPED = """
const bad = [];
for (const svg of document.querySelectorAll('svg.picture')) {
  if (getComputedStyle(svg).display === 'none') continue;
  const all = svg.viewBox.baseVal, boxes = [];
  for (const text of svg.querySelectorAll('text')) {
    const box = text.getBBox();
    const right = box.x + box.width, bottom = box.y + box.height;
    if (box.x < -0.5 || box.y < -0.5 || right > all.width + 0.5 || bottom > all.height + 4) bad.push(['out', text.textContent]);
    for (const [other, words] of boxes) {
      const wide = Math.min(box.x + box.width, other.x + other.width) - Math.max(box.x, other.x);
      const high = Math.min(box.y + box.height, other.y + other.height) - Math.max(box.y, other.y);
      if (wide > 1 && high > 4) bad.push(['over', text.textContent, words]);
    }
    boxes.push([box, text.textContent]);
  }
}
return bad;
"""


@pytest.fixture(scope="module")
def outage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outage")
    root = folder / "root"
    shutil.copytree(SAMPLE.parent / "offline" / "nobody-leads", root)
    shutil.copytree(SAMPLE / "multi-round", folder / "other")
    write_warehouse(folder / "warehouse", root, folder / "other", run_id="before")
    for replica in (folder / "other").glob("broker-*/data-0/ledger-0"):
        shutil.rmtree(replica)
    write_warehouse(folder / "warehouse", root, folder / "other", run_id="now", started_at=STARTED + timedelta(days=1))
    made = folder / "page.html"
    assert cli.main(["report", "--warehouse", str(folder / "warehouse"), "--output", str(made)]) == 0
    return made


class TestNobodyLeads:
    """The page of a run whose partitions have no leader, and of an earlier finding that could not be confirmed."""

    def test_it_is_the_first_news(self, browser: Browser, outage: Path) -> None:
        browser.open(outage.as_uri())
        assert browser.texts("h1") == ["2 partitions have no leader."]
        assert "is to be elected, uncleanly, for 2 partitions" in browser.texts("ul.brokers > li")[0]
        assert browser.texts("main > section > h2")[0].startswith("Partitions without a leader")
        first = browser.texts("section[aria-labelledby=offline] > ul > li")[0]
        assert "ISR none, ELR 2, last leader 2" in first
        assert "elect 2: loses nothing (an unclean election, once broker 2 runs)" in first
        assert "elect 3: loses nothing (an unclean election, once broker 3 runs)" in first
        assert "elect 2: loses nothing" in browser.texts(".next")[0]
        assert browser.complaints() == []

    def test_a_link_leads_to_its_picture(self, browser: Browser, outage: Path) -> None:
        browser.open(f"{outage.as_uri()}#root/jb-1" if "root/jb-1" in outage.read_text(encoding="utf-8") else f"{outage.as_uri()}#jb-1")
        assert browser.run("return document.activeElement.classList.contains('partition')")
        assert browser.texts(".partition .offline h4")[:3] == ["What to do", "When a broker starts", "No leader"]
        assert "no leader" in cells(browser, 3)
        assert browser.run("const ids = [...document.querySelectorAll('[id]')].map(e => e.id); return ids.length - new Set(ids).size") == 0

    def test_what_was_not_confirmed_is_listed(self, browser: Browser, outage: Path) -> None:
        browser.open(outage.as_uri())
        assert browser.texts("#unconfirmed")[0].startswith("Not confirmed, still open")
        assert "unconfirmed" in browser.texts(".changes")[0]
