"""Pages: each is there, says what REST says, keeps to its policy, and shows hostile text as text."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from orchestrator.domain.runs.run import ExperimentState, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import Analysis, Measurement, Validity
from orchestrator.domain.words.errors import StoreUnavailable
from orchestrator.web.page import HEADERS, templates
from tests.contract.test_store_profiles import WHOLE
from tests.unit.api import test_nightly_rest, test_waterfall_rest
from tests.unit.api.api_rig import Rig, entry, rate
from tests.unit.builders import LOADED

AS_BROWSER = {"Accept": "text/html,application/xhtml+xml"}
MARKUP = '<img src=x onerror=alert(1)>"\u202egnp.exe'
PICTURE = '<img src="data:image/svg+xml;base64,'
VOID = {"meta", "link", "input", "br", "img", "rect", "hr"}


@dataclass
class Scene:
    """Something of everything, and the ids of it."""

    rig: Rig
    experiment: str = ""
    waterfall: str = ""
    profiled: str = ""
    living: str = ""
    failed: str = ""
    schedule: str = ""
    cells: str = ""

    def open(self, path: str, status: int = 200) -> str:
        answer = self.rig.http.get(path, headers=AS_BROWSER)
        assert answer.status_code == status, (path, answer.text)
        return answer.text


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    rig = Rig(tmp_path_factory.mktemp("scene"))
    found = Scene(rig)
    found.schedule = test_nightly_rest.slowed(rig)
    several = rig.submit(name="several", **test_waterfall_rest.PROFILED)["id"]
    found.experiment, found.waterfall = several, test_waterfall_rest.complete(rig, several)["2x1"]
    rig.store.end_experiment(several, ExperimentState.COMPLETED, 11.0)
    hostile = rig.submit(labels={"who": MARKUP}, repeats=3, profile=["kernels", "layers"], name="hostile")
    profiled, living, failed = (run.id for run in rig.store.runs_of(hostile["id"]))
    for run in (profiled, living, failed):
        attempt = rig.start(run)
        output = {"process": "w0", "stream": "stdout", "offset": 0, "text": f"said {MARKUP}\n\x1b[31mred"}
        rig.store.append_entries(attempt, "n0", [entry(1, "output", **output)])
    numbers = rate(50.0, LOADED).measurements
    rig.finish(profiled, Analysis(Validity((LOADED,)), measurements=numbers, profiles=WHOLE, code_version="1"))
    crashed = Failure(FailureKind.CRASHED, f"it said {MARKUP}", stderr_tail=MARKUP)
    rig.finish(failed, Analysis(Validity(), failure=crashed), RunState.FAILED, failure=crashed)
    found.profiled, found.living, found.failed = profiled, living, failed
    found.cells = str(hostile["id"])
    yield found
    rig.close()


PAGES = {
    "home": "/",
    "experiments": "/experiments",
    "experiments filtered": "/experiments?state=active&order=oldest&owner=",
    "experiments, second part": "/experiments?limit=1",
    "runs": "/runs",
    "runs of a model": "/runs?model=net&state=failed",
    "results": "/results",
    "results of none": "/results?gpu_model=H100",
    "experiment": "/experiments/{experiment}",
    "experiment sorted": "/experiments/{experiment}?sort=-rate&axis=topology",
    "experiment with hostile labels": "/experiments/{cells}",
    "run with a waterfall": "/runs/{waterfall}",
    "run with profiles": "/runs/{profiled}",
    "run from nearby": "/runs/{profiled}?from=0.5&to=2",
    "run that goes on": "/runs/{living}",
    "run that failed": "/runs/{failed}",
    "history": "/history",
    "history of a model": "/history?model=net",
    "series": "/history/w",
    "compare": "/compare",
    "comparison": "/compare?of={experiment}&of={cells}",
    "comparison of runs": "/compare?of={waterfall}&of={profiled}&of=several",
    "observations": "/observations",
    "nodes": "/nodes",
    "schedules": "/schedules",
    "schedule": "/schedules/{schedule}",
    "new": "/new",
    "extension": "/new?extend={cells}",
}
DRAWN = {"series", "experiment", "experiment sorted", "comparison of runs"}  # pages with figures: of what is over


class Nested(HTMLParser):
    """Notes what of a page is not closed, or refers to something elsewhere or to code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.ids: list[str] = []
        self.feed(html)
        self.wrong += self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.open += [] if tag in VOID else [tag]
        for name, value in attributes:
            leads_out = name in ("src", "href", "action") and "//" in (value or "")
            if name == "style" or name.startswith("on") or leads_out:
                self.wrong.append(f"{tag} {name}={value}")
            self.ids += [value or ""] if name == "id" else []
        if tag == "script" and ("src", "/static/live.js") not in attributes:
            self.wrong.append("script")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(f"/{tag}")


@pytest.mark.parametrize("name", PAGES)
def test_every_page_keeps_to_its_policy_and_links_its_twin(scene: Scene, name: str) -> None:
    path = PAGES[name].format(**vars(scene))
    answer = scene.rig.http.get(path, headers=AS_BROWSER)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert {header: answer.headers[header] for header in HEADERS} == HEADERS
    assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == ("no-store", "nosniff")
    nested = Nested(answer.text)
    assert nested.wrong == []
    assert len(nested.ids) == len(set(nested.ids))
    assert MARKUP not in answer.text
    pictures = answer.text.count(PICTURE)
    assert (answer.text.count("<img"), pictures > 0) == (pictures, name in DRAWN)
    assert "\u202e" not in answer.text
    assert "secret" not in unescape(answer.text).replace('name="secret"', "")  # an attempt's token is "secret"
    twin = re.search(r'The same for programs: <a href="([^"]+)"', answer.text)
    if not path.startswith(("/new", "/compare")):
        assert twin, "it names no twin"
        assert scene.rig.http.get(unescape(twin[1])).status_code == 200


def test_every_template_is_shown_by_some_page(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[str] = set()
    whole = templates().get_template
    monkeypatch.setattr(templates(), "get_template", lambda name, *more: used.add(name) or whole(name, *more))
    for path in PAGES.values():
        scene.open(path.format(**vars(scene)))
    scene.open("/nowhere", 404)
    scene.open("/login")
    cross = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    monkeypatch.setattr(scene.rig.app.state.gate, "_closed", True)
    assert scene.rig.http.get("/runs", headers=AS_BROWSER | cross).status_code == 200
    folder = Path(__file__).parents[3] / "orchestrator" / "web" / "templates"
    assert used == {one.name for one in folder.iterdir()}


def test_a_table_has_what_the_command_line_prints_and_its_numbers_lead_to_their_runs(scene: Scene) -> None:
    html = scene.open(f"/experiments/{scene.experiment}")
    (row,) = [one for one in scene.rig.get(f"/experiments/{scene.experiment}/results")["items"] if one["n_used"]][:1]
    assert "images/s (95 % CI)" in html
    for run in row["run_ids"]:
        assert f'<a href="/runs/{run}">{run}</a>' in html
    assert "Scaling" in html
    assert "speed-up" in html


def test_hostile_text_is_shown_escaped(scene: Scene) -> None:
    for path in (f"/experiments/{scene.cells}", f"/runs/{scene.failed}", f"/runs/{scene.living}"):
        assert "&lt;img src=x onerror=alert(1)&gt;&#34;\\u202egnp.exe" in scene.open(path)
    assert "\\x1b[31mred" in scene.open(f"/runs/{scene.living}")


def test_a_run_tells_its_grade_with_reasons_its_shares_and_its_waterfall(scene: Scene) -> None:
    html = scene.open(f"/runs/{scene.profiled}")
    assert "disturbed: others had a third of the cores" in html
    assert html.count("<meter") == 5
    assert "kernel or operator" in html
    html = scene.open(f"/runs/{scene.waterfall}")
    assert "exposed exchange" in html
    assert html.count("<rect") == html.count("bars") > 3


def test_filters_that_are_on_are_shown_and_can_be_taken_off_and_parts_lead_on(scene: Scene) -> None:
    html = unescape(scene.open("/runs?model=net&state=completed&limit=2"))
    assert 'href="/runs?model=net&limit=2" aria-label="Take off state completed"' in html
    following = re.search(r'href="([^"]+)" rel="next"', html)
    assert following
    further = unescape(scene.open(following[1]))
    assert 'href="/runs?model=net&state=completed&limit=2" rel="first"' in further
    shown = [re.findall(r'<a href="/runs/(run_\w+)">run', one) for one in (html, further)]
    assert len(set(shown[0]) | set(shown[1])) == 4


def test_cells_are_sorted_by_a_column_and_the_heading_turns_them_round(scene: Scene) -> None:
    orders = {}
    for sort in ("rate", "-rate"):
        html = scene.open(f"/experiments/{scene.experiment}?sort={sort}")
        orders[sort] = re.findall(r'<tr id="(\w+)"', html)
        assert f'aria-sort="{"descending" if sort[0] == "-" else "ascending"}"' in html
    assert orders["rate"] == orders["-rate"][::-1]
    assert len(orders["rate"]) == 2


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/runs/run_removed", 404, "there is no run"),
        ("/experiments/exp_removed", 404, "there is no experiment"),
        ("/experiments?sate=active", 422, "no such parameter"),
        ("/runs?self=1&path=2", 422, "no such parameter"),
        ("/runs?state=<b>", 422, "state"),
        ("/compare?of=a&of=nobody", 422, "stands for nothing"),
        ("/nowhere", 404, "there is nothing at /nowhere"),
        ("/runs/%00", 404, "there is no"),
        ("/runs/any?from=2&to=1", 422, "seconds since the first step"),
        ("/runs/any?from=nan", 422, "seconds since the first step"),
    ],
)
def test_what_is_refused_is_a_page_for_browsers_and_a_problem_for_programs(
    scene: Scene, path: str, status: int, says: str
) -> None:
    html = scene.open(path, status)
    assert Nested(html).wrong == []
    assert says in html
    assert scene.rig.http.get(path).json()["status"] == status


def test_what_is_no_number_damaged_or_removed_is_told_and_breaks_no_page(rig: Rig) -> None:
    made = rig.submit(repeats=2)["id"]
    odd, damaged = (run.id for run in rig.store.runs_of(made))
    nothing = Measurement("throughput", math.nan, "images/s", "m", ci_low=math.nan, ci_high=math.inf, n=math.nan)
    memory = Measurement("peak_memory_bytes", math.inf, "B", "m", n=2.0)
    rig.start(odd)
    rig.finish(odd, Analysis(Validity(), measurements=(nothing, memory), summary={"loss": math.nan}, code_version="1"))
    rig.store.database.write(
        lambda connection: connection.exec_driver_sql(f"UPDATE run SET plan = '{{}}' WHERE id = '{damaged}'")
    )
    for path in ("/", "/runs", "/results", f"/experiments/{made}", f"/runs/{odd}", f"/compare?of={odd}&of={odd}"):
        assert rig.http.get(path, headers=AS_BROWSER).status_code == 200, path
    assert "NaN" in rig.http.get(f"/runs/{odd}", headers=AS_BROWSER).text
    assert f"tbd rm {made}" in rig.http.get("/runs", headers=AS_BROWSER).text
    answer = rig.http.get(f"/runs/{damaged}", headers=AS_BROWSER)
    assert (answer.status_code, "is damaged" in answer.text) == (409, True)
    assert rig.http.delete(f"/api/v1/experiments/{made}").status_code == 204
    assert rig.http.get(f"/experiments/{made}", headers=AS_BROWSER).status_code == 404


def test_while_the_database_is_away_there_is_a_page_that_says_so(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("the database does not answer")

    monkeypatch.setattr(rig.store, "experiments", away)
    answer = rig.http.get("/experiments", headers=AS_BROWSER)
    assert answer.status_code == 503
    assert "the database does not answer" in answer.text
    assert answer.headers["retry-after"]
    assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


def test_a_surprise_is_a_page_without_its_text_and_is_in_the_log(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rig.store, "experiments", lambda *_, **__: 1 / 0)
    answer = rig.http.get("/experiments", headers=AS_BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert "division" not in answer.text
    assert "division by zero" in caplog.text


def test_the_script_is_short_and_the_two_files_are_all_there_is(rig: Rig) -> None:
    script = rig.http.get("/static/live.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert len(script.text.splitlines()) <= 300
    assert not re.search(r"innerHTML|eval\(|https?://", script.text)
    style = rig.http.get("/static/style.css")
    assert style.headers["cache-control"] == "no-cache"
    again = rig.http.get("/static/style.css", headers={"If-None-Match": style.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert rig.http.get("/static/../site.py").status_code == 404
