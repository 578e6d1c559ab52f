"""Pages in a real browser, the system's: a token becomes a session, an experiment is submitted and followed to its end.

Meanwhile the browser says nothing on its console, asks nobody else for anything, and axe finds nothing serious.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.service_rig import Tbd, environment
from tests.support.service import Service

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = shutil.which("chromium")
SPEC = """\
name: in-a-browser
model: sleep
framework: sleep
per_device_batch_size: [1, 2]
size: tiny
repeats: 2
max_repeats: 2
max_steps: 30
min_measure_s: 0.01
labels: {who: "<b>me</b>"}
"""
END_MS = 60_000

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium here: deploy/system_packages.sh chromium"
)


class Browser:
    """A page of Chromium, and what went wrong on it."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.wrong: list[str] = []
        page.on("console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda one: None if one.url.startswith((url, "data:")) else self.wrong.append(one.url))

    def looked_at(self, path: str | None = None) -> None:
        """Open a path, or stay, and have axe look at it, in light and dark, wide and narrow."""
        if path is not None:
            assert self.page.goto(self.url + path).status == 200
        for scheme, width in (("light", 1200), ("dark", 400)):
            self.page.emulate_media(color_scheme=scheme)
            self.page.set_viewport_size({"width": width, "height": 900})
            found = axe.Axe().run(self.page).response["violations"]
            serious = [
                (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
            ]
            assert serious == [], (self.page.url, scheme)
            assert self.page.evaluate("document.documentElement.scrollWidth") <= width, (self.page.url, scheme)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    started = Service(tmp_path / "data", **environment(tmp_path, HOME=str(tmp_path))).start()
    yield started
    assert started.stop() == 0


@pytest.fixture
def browser(service: Service) -> Iterator[Browser]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        # axe is put into the page as a script, which our policy forbids; what breaks the policy is looked for apart.
        made = Browser(chromium.new_context(bypass_csp=True).new_page(), service.url)
        yield made
        chromium.close()


def test_a_person_signs_in_submits_watches_the_end_opens_a_run_and_signs_out(
    service: Service, browser: Browser, tmp_path: Path
) -> None:
    offline = Tbd(tmp_path, None)
    offline.environment["HOME"] = str(tmp_path)
    token = offline("token", "add", "ada").stdout.strip()
    page = browser.page
    page.goto(f"{service.url}/new")
    page.wait_for_url("**/login?next=%2Fnew")
    browser.looked_at()
    page.fill("input[name=token]", token)
    page.click("button")
    page.wait_for_url("**/new")
    page.fill("textarea", SPEC.replace("sleep\nframework", "slep\nframework"))
    page.click("button:has-text('Check')")
    assert "line 2: model" in page.inner_text(".problem")
    browser.wrong.clear()  # a page of 422 is an error to the console
    page.fill("textarea", SPEC)
    page.click("button:has-text('Check')")
    browser.looked_at()
    page.click("button:has-text('Submit')")
    assert page.locator(".problem").all_inner_texts() == []
    page.wait_for_url("**/experiments/exp_*")
    experiment = page.url.rpartition("/")[2]
    # Nobody loads the page again: it follows the stream to the end.
    page.wait_for_function("document.querySelector('#state').innerText.includes('completed')", timeout=END_MS)
    page.wait_for_selector("#results td details", timeout=END_MS)
    assert "<b>me</b>" in page.inner_text("#state")
    browser.looked_at()
    page.click("#results td details summary")
    page.click("#results td details a")
    page.wait_for_url("**/runs/run_*")
    assert "sound" in page.inner_text("#state") or "disturbed" in page.inner_text("#state")
    browser.looked_at()
    goes_nearer(page)
    for path in ("/", "/experiments", "/runs?state=completed", "/results", "/history", "/nodes", "/observations"):
        browser.looked_at(path)
    browser.looked_at(f"/compare?of={experiment}&of={experiment}")
    page.goto(f"{service.url}/runs")
    for box in page.locator("input[name=of]").all()[:2]:
        box.check()
    page.click("button:has-text('Compare those chosen')")
    page.wait_for_url("**/compare?of=run_*&of=run_*")
    page.click("button:has-text('Sign out')")
    page.wait_for_url("**/login")
    assert page.goto(f"{service.url}/runs").url.endswith("/login?next=%2Fruns")
    assert browser.wrong == []


def goes_nearer(page: Any) -> None:
    """Drag across the middle half of the figure over time, and see that half; then all of it again."""
    figure = page.locator("[data-zoom]")
    data, whole = figure.evaluate("one => ({...one.dataset})"), figure.locator("img").get_attribute("src")
    figure.scroll_into_view_if_needed()
    box = figure.locator("img").bounding_box()
    left, right = (float(data[side]) * box["width"] + box["x"] for side in ("left", "right"))
    for share, act in ((0.25, page.mouse.down), (0.75, page.mouse.up)):
        page.mouse.move(left + share * (right - left), box["y"] + box["height"] / 4)
        act()
    page.wait_for_url(lambda url: "from=" in url)
    seen = figure.evaluate("one => ({...one.dataset})")
    end_s = float(data["to"])
    assert [float(seen[end]) / end_s for end in ("from", "to")] == pytest.approx([0.25, 0.75], abs=0.02)
    assert figure.locator("img").get_attribute("src") != whole
    page.click("text=All of it")
    page.wait_for_url(lambda url: "from=" not in url)
    assert figure.locator("img").get_attribute("src") == whole


@pytest.mark.after_change
def test_no_page_breaks_its_policy_and_without_javascript_all_is_there(service: Service) -> None:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scripts in (True, False):
            browser = Browser(chromium.new_context(java_script_enabled=scripts).new_page(), service.url)
            for path in ("/", "/experiments", "/runs", "/results", "/nodes", "/schedules", "/history", "/new"):
                assert browser.page.goto(service.url + path).status == 200
            browser.page.fill("textarea", SPEC.replace("in-a-browser", f"scripts-{str(scripts).lower()}"))
            browser.page.click("button:has-text('Check')")
            browser.page.click("button:has-text('Submit')")
            browser.page.wait_for_url("**/experiments/exp_*")
            browser.page.click("button:has-text('Cancel')")
            browser.page.wait_for_url("**/experiments/exp_*")
            assert "cancel" in browser.page.inner_text("#state")
            assert browser.wrong == []
        chromium.close()
