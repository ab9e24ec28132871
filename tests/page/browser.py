"""A real browser: Chromium without a window, driven by its own driver; what it logs, and what it asks the network for."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

DESKTOP, PHONE = (1280, 900), (390, 844)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


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
        width, height = size
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.command("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.driver.get(page)

    def command(self, name: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

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
def started(profile: Path) -> Iterator[Browser]:
    """A browser, ended whatever happens."""
    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, _BROWSERS)))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    flags = [
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--hide-scrollbars",
        f"--user-data-dir={profile}",
    ]
    # Chromium's sandbox does not start for root
    for flag in [*flags, *(["--no-sandbox"] if os.geteuid() == 0 else [])]:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_page_load_timeout(120)
        driver.set_script_timeout(120)
        yield Browser(driver)
    finally:
        driver.quit()
