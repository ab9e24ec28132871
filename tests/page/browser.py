"""A real browser: Chromium without a window, driven by its own driver; what it logs, and what it asks the network for."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

DESKTOP, PHONE = (1280, 900), (390, 844)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_HANGS_AFTER_S = 600.0
_STARTS = 4
# the layout's width, dark, print, less motion
_EMULATED = """
const has = (query) => matchMedia(query).matches;
return [
  document.documentElement.clientWidth, has('(prefers-color-scheme: dark)'), has('print'), has('(prefers-reduced-motion: reduce)'),
];
"""


class Browser:
    """One window. Sizes in CSS pixels; a theme is light or dark."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: str, *, size: tuple[int, int] = DESKTOP, theme: str = "light", media: str = "", scripts: bool = True) -> None:
        """Open a page anew; `media` is print for a page as on paper."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        features = [{"name": "prefers-color-scheme", "value": theme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
        self.command("Emulation.setEmulatedMedia", media=media, features=features)
        # outlines of what has the focus are drawn where the window has it, too
        self.command("Emulation.setFocusEmulationEnabled", enabled=True)
        width, height = size
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.command("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.driver.get(page)
        # size and media reach the page by themselves, not with the answer to the command
        wanted = [width, theme == "dark", media == "print", True]
        self.wait(lambda: self.run(_EMULATED) == wanted, f"{wanted} is not what the page has: {self.run(_EMULATED)}")

    def command(self, name: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, holds: Callable[[], bool], what: str = "") -> None:
        """Wait until something holds."""
        WebDriverWait(self.driver, _HANGS_AFTER_S, poll_frequency=0.05).until(lambda _driver: holds(), what)

    def follow(self, selector: str) -> None:
        """Click a link to a place on the page, and wait until the page has followed it: its own script runs after the click."""
        self.run("window.followed = new Promise(resolve => addEventListener('hashchange', () => resolve(), { once: true }))")
        self.driver.find_element("css selector", selector).click()
        self.driver.execute_async_script("window.followed.then(arguments[0])")

    def texts(self, selector: str) -> list[str]:
        """The text of every element that a selector finds."""
        found: list[str] = self.run("return [...document.querySelectorAll(arguments[0])].map(one => one.textContent.trim())", selector)
        return found

    def complaints(self) -> list[str]:
        """What the console says: errors, and whatever the content security policy refused."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> set[str]:
        """Where the page went, data: aside."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        asked = (event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent")
        return {url.split("#")[0] for url in asked if urlsplit(url).scheme not in ("data", "about")}


@contextmanager
def started(folder: Path) -> Iterator[Browser]:
    """A browser, ended whatever happens; a folder for its profiles."""
    driver = _driver(folder)
    try:
        driver.set_page_load_timeout(120)
        driver.set_script_timeout(120)
        yield Browser(driver)
    finally:
        driver.quit()


def _driver(folder: Path) -> webdriver.Chrome:
    """A browser that has started: its driver waits a minute for that, which a machine with much to do may exceed."""
    short = {**os.environ, "TMPDIR": "/tmp"}  # noqa: S108 - the path of a socket may have some hundred characters only
    for start in range(_STARTS):
        try:
            service = Service(shutil.which("chromedriver"), env=short)
            return webdriver.Chrome(options=_options(folder / f"profile-{start}"), service=service)
        except WebDriverException as error:
            last = error
    raise last


def _options(profile: Path) -> webdriver.ChromeOptions:
    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, _BROWSERS)))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    flags = [
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--no-sandbox",  # which starts neither for root nor in most containers; the pages are the tests' own
        "--hide-scrollbars",
        f"--user-data-dir={profile}",
    ]
    for flag in flags:
        options.add_argument(flag)
    return options
