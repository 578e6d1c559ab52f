"""Pages: of a server that stores much / of one that stores little; the first page with a large board; time series of a
million points. And beside MLflow's (https://mlflow.org), by the same browser on the same disk, with as many runs.

Seconds are those until a person sees it: until the last table or figure is there, by the system's Chromium. MLflow is
installed into an environment of its own, which is removed afterwards.
"""

import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from bench import filled
from bench.lists import serving
from bench.ratio import Ratio, in_turn, ratio
from orchestrator.db.store import SqlStore
from orchestrator.domain.runs.filters import RunFilter
from orchestrator.domain.runs.run import RunState
from orchestrator.domain.value.time_series import Points, TimeSeries
from tests.support.service import Service
from workers.node.port_choice import free_port

REQUESTS = 20  # of which the 95th percentile is taken
LITTLE, MUCH = {"ended": 50, "large_runs": 300}, {"ended": 2000, "large_runs": 20_000}
SHORT, LONG = 10**3, 10**6  # points
COMPARED, STORED = 100, 10_000  # runs, beside MLflow's
MLFLOW = ("mlflow==3.6.0", "sqlalchemy<2.1")  # which does not begin with a later SQLAlchemy
PAGES = (
    *("/", "/experiments", "/runs", "/results", "/history", "/nodes", "/schedules", "/new", "/observations"),
    *("/experiments/{experiment}", "/runs/{run}", "/runs/{run}?from=1&to=9", "/compare?of={run}&of={other}"),
)


@dataclass(frozen=True)
class Served:
    """A server with what there is on it: an experiment whose runs have ended, two of its runs."""

    service: Service
    experiment: str
    run: str
    other: str

    @classmethod
    def of(cls, service: Service) -> "Served":
        runs = service.call("GET", "/api/v1/runs?state=completed&limit=50&model=lstm-classifier")["items"]
        same = [one for one in runs if one["experiment_id"] == runs[0]["experiment_id"]]
        return cls(service, same[0]["experiment_id"], same[0]["id"], same[1]["id"])  # those with time series

    def url(self, page: str) -> str:
        return self.service.url + page.format(experiment=self.experiment, run=self.run, other=self.other)


@contextmanager
def rig() -> Iterator[Mapping[str, Served]]:
    """The servers ``little``, ``much`` and ``board`` (200 cells, 14 nights)."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tbd-bench-")))
        contents = {
            "little": _fill(**LITTLE),
            "much": _fill(**MUCH),
            "board": lambda store: filled.nights(store, 14, 200),
        }
        made = {}
        for name, fill in contents.items():
            service = stack.enter_context(serving(folder / name, fill))
            made[name] = Served.of(service) if name != "board" else Served(service, "", "", "")
        yield made


def _fill(**content: int) -> Callable[[SqlStore], None]:
    """Experiments, and of one run that has ended a course of ``LONG`` steps, of another one of ``SHORT``."""

    def fill(store: SqlStore) -> None:
        filled.fill(store, **content)
        wanted = RunFilter(state=RunState.COMPLETED, model="lstm-classifier")
        first, second, *_ = store.runs(wanted, limit=2).items
        for run, n in ((first, LONG), (second, SHORT)):
            store.add_time_series(run.id, [_steps(n)])

    return fill


def _steps(n: int) -> TimeSeries:
    lots = random.Random(n)
    values = [lots.gauss(0.1, 0.005) for _ in range(n)]
    return TimeSeries("step_time_s", "rank 0", Points(list(accumulate(values)), values, values))


def measure(served: Mapping[str, Served], pairs: int) -> list[Ratio]:
    """Pages of a filled server, its board, and zooming."""
    found = [_worst(served, pairs)]
    board, few = served["board"], served["little"]
    taken = in_turn(pairs, lambda: p95_s(board.url("/")), lambda: p95_s(few.url("/experiments")))
    found.append(ratio("p95 of home with 200 cells x 14 nights / a page of 50 experiments", "<= 10", *taken))
    with browser() as page:
        taken = in_turn(pairs, lambda: zoom_s(page, few, few.run), lambda: zoom_s(page, few, few.other))
    found.append(ratio("zoom, gesture to drawn: in 10^6 steps / in 10^3", "<= 2", *taken))
    return found


def _worst(served: Mapping[str, Served], pairs: int) -> Ratio:
    found = []
    for path in PAGES:
        sides = [lambda of=of, at=path: p95_s(served[of].url(at)) for of in ("much", "little")]
        found.append(ratio(f"p95 of {path}: 32,000 runs stored / 600", "<= 2", *in_turn(pairs, *sides)))
        print(found[-1], file=sys.stderr, flush=True)
    return max(found, key=lambda one: one.value)


def p95_s(url: str) -> float:
    """Seconds until the HTML is there; the 95th percentile over ``REQUESTS``."""
    taken = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        with urllib.request.urlopen(
            urllib.request.Request(url, headers={"Accept": "text/html"}), timeout=300
        ) as answer:
            answer.read()
        taken.append(time.perf_counter() - began)
    return statistics.quantiles(taken, n=20, method="inclusive")[-1]


@contextmanager
def browser() -> Iterator[Any]:
    """A page of the system's Chromium, at 1,400 x 1,000."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(180_000)
        yield page
        chromium.close()


_IS_DRAWN = """before => {
    const image = document.querySelector("[data-zoom] img");
    return image.src !== before && image.complete;
}"""


def zoom_s(page: Any, served: Served, run: str) -> float:
    """Seconds from the end of a gesture across a part of the figure, another one each time, until that is drawn."""
    page.goto(served.service.url + f"/runs/{run}")
    image = page.locator("[data-zoom] img")
    image.scroll_into_view_if_needed()
    before = image.get_attribute("src")
    box = image.bounding_box()
    left, right = sorted(random.Random(time.monotonic_ns()).sample(range(30, 80), 2))
    page.mouse.move(box["x"] + box["width"] * left / 100, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * (right + 5) / 100, box["y"] + 60)
    began = time.perf_counter()
    page.mouse.up()
    page.wait_for_function(_IS_DRAWN, arg=before)
    return time.perf_counter() - began


# Beside MLflow


@dataclass(frozen=True)
class Both:
    """Where the list of all runs is, and the comparison of ``COMPARED`` of them."""

    page: Any
    ours: Mapping[str, str]
    theirs: Mapping[str, str]


@contextmanager
def beside_mlflow() -> Iterator[Both]:
    """Both servers, with ``STORED`` runs each."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tbd-bench-")))
        service = stack.enter_context(serving(folder / "ours", lambda store: filled.fill(store, ended=STORED // 6 + 1)))
        runs = service.call("GET", "/api/v1/runs?state=completed&model=resnet-50&framework=pytorch&limit=1000")["items"]
        alike = [one for one in runs if one["plan"]["cell_key"] == runs[0]["plan"]["cell_key"]]
        query = "&".join(f"of={one['id']}" for one in alike[:COMPARED])
        ours = {"list": f"{service.url}/runs?limit=100", "compare": f"{service.url}/compare?{query}"}
        theirs = stack.enter_context(mlflow(folder / "mlflow"))
        yield Both(stack.enter_context(browser()), ours, theirs)


_FILL_MLFLOW = """
import json, sys, time
from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient
client = MlflowClient(sys.argv[1])
experiment, ids = client.create_experiment("bench"), []
for number in range(int(sys.argv[2])):
    run = client.create_run(experiment, run_name=f"run-{number}")
    now = int(1000 * time.time())
    metrics = [Metric(name, 100.0 + number % 17, now, 0) for name in ("throughput", "step_time_p50_s", "loss_last")]
    params = [Param("model", ("resnet-50", "lstm")[number % 2]), Param("batch", str(2 ** (number % 4)))]
    client.log_batch(run.info.run_id, metrics, params)
    client.set_terminated(run.info.run_id)
    ids.append(run.info.run_id)
print(json.dumps([experiment, ids[-100:]]))
"""


@contextmanager
def mlflow(folder: Path) -> Iterator[dict[str, str]]:
    """Its server, in an environment of its own."""
    python = mlflow_python(folder)
    store = f"sqlite:///{folder / 'mlflow.db'}"
    filling = [python, "-c", _FILL_MLFLOW, store, str(STORED)]
    experiment, ids = json.loads(subprocess.run(filling, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])
    port = free_port()
    command = [python, "-m", "mlflow", "server", "--backend-store-uri", store, "--port", str(port), "--workers", "1"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(f"{url}/health")
        runs = urllib.parse.quote(json.dumps(ids))
        compared = f"{url}/#/compare-runs?runs={runs}&experiments={urllib.parse.quote(json.dumps([experiment]))}"
        yield {"list": f"{url}/#/experiments/{experiment}/runs", "compare": compared}
    finally:
        os.killpg(server.pid, signal.SIGTERM)  # its workers with it
        server.wait()


def mlflow_python(folder: Path) -> str:
    """An interpreter that has MLflow, in an environment that is made in ``folder``."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    python = str(folder / "env" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *MLFLOW], check=True)
    return python


def _wait_for(url: str) -> None:
    """Raises TimeoutError."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.5)
    raise TimeoutError(f"{url} does not answer")


# Text and figures that are there at last, as selectors of the browser.
_SEEN = {
    "ours list": "table tbody tr:nth-child(100)",
    "ours compare": f".figures img >> nth=0 >> xpath=//following::section[{COMPARED - 1}]//table",
    "theirs list": f"text=run-{STORED - 1}",
    "theirs compare": ".js-plotly-plot .main-svg",
}


def measure_beside(both: Both, pairs: int) -> list[Ratio]:
    """The list and the comparison, in turn."""
    found = []
    for what, wanted in (("list", "<= 0.3"), ("compare", "<= 0.2")):
        sides = [
            lambda whose=whose, urls=urls, at=what: seen_s(both.page, urls[at], _SEEN[f"{whose} {at}"])
            for whose, urls in (("ours", both.ours), ("theirs", both.theirs))
        ]
        for first in sides:  # neither a server that begins nor an empty cache of the browser is compared
            first()
        name = f"{what} of runs to be seen, {STORED} stored" + (f", {COMPARED} of them" if what == "compare" else "")
        found.append(ratio(f"{name} / MLflow's", wanted, *in_turn(pairs, *sides)))
    return found


def seen_s(page: Any, url: str, selector: str) -> float:
    """Seconds until ``selector`` is seen."""
    page.goto("about:blank")
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.locator(selector).first.wait_for(state="visible")
    return time.perf_counter() - began
