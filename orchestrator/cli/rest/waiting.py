"""Waits for an experiment or a run: progress on stderr, the results on stdout. Ctrl-C detaches, it cancels nothing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from orchestrator.cli.exits import DONE, INTERRUPTED, RUN_FAILED, CommandError
from orchestrator.cli.printing import output, streams
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.searches import Searches, answer_of
from orchestrator.domain.expansion.bisection import Answer
from orchestrator.reports.numbers import duration, memory, plain

ENDED = ("completed", "failed", "cancelled")
BAR_CELLS = 24


def wait_and_print(client: Client, experiment_id: str, as_json: bool = False) -> int:
    """Wait for an experiment and print its table (as JSON: the experiment); the exit code.

    Raises:
        CommandError: the server is gone, or (130) Ctrl-C.
    """
    experiment = wait_for_experiment(client, experiment_id)
    if as_json:
        output.print_json(experiment)
    else:
        print_results_of(client, experiment_id)
    return code_of(experiment)


def print_results_of(client: Client, experiment_id: str) -> None:
    """The table of an experiment, and where several frameworks took part their comparison below it."""
    from orchestrator.cli.printing.tables import print_pairs, print_results

    rows = client.pages(path_of("experiments", experiment_id, "results"))["items"]
    print_results(rows, "" if rows else client.get(path_of("experiments", experiment_id))["state"])
    if len({row["axes"]["framework"] for row in rows}) > 1:
        found = client.get(path_of("experiments", experiment_id, "comparisons"))
        if found["axis"] == "framework" and found["items"]:
            print_pairs(found)


def code_of(ended: dict[str, Any]) -> int:
    """The exit code for an experiment or a run that has ended."""
    return DONE if ended["state"] == "completed" else RUN_FAILED


def wait_for_experiment(client: Client, experiment_id: str) -> dict[str, Any]:
    """Follow an experiment until it has ended; it."""
    path = path_of("experiments", experiment_id)
    progress = _Progress(client, client.get(path))
    with _detaching(client, experiment_id), progress:
        for event in client.events(f"{path}/events"):
            if event.kind == "run":
                progress.see(event.data)
            elif event.kind == "waiting" and event.data["reason"]:
                progress.say(event.data["reason"])
    return dict(client.get(path))


def wait_for_run(client: Client, run_id: str, as_json: bool = False) -> int:
    """Follow a run: its states, its steps, what goes wrong; the exit code."""
    path = path_of("runs", run_id)
    with _detaching(client, run_id):
        for event in client.events(f"{path}/events"):
            if text := _tell(event.kind, event.data):
                output.say(text)
    run = client.get(path)
    if as_json:
        output.print_json(run)
    else:
        from orchestrator.cli.printing.tables import print_run

        print_run(run, client.get(f"{path}/measurements")["items"])
    return code_of(run)


def _tell(kind: str, event: dict[str, Any]) -> str | None:
    """One entry of a log in words, where a person who waits wants to know it."""
    data = event.get("data") or {}
    if kind == "state":
        return str(event["state"])
    if kind == "loss":
        return f"  step {data['step']}: loss {plain(data['value'])}"
    if kind == "versions":
        return f"  {data['framework']} {data['version']}"
    if kind == "built":
        return f"  built: {data['parameters']} parameters in {plain(data['build_s'], 3)} s"
    if kind in ("stopping_decided", "stop_requested", "stopped"):
        return f"  {kind.replace('_', ' ')}: {data['reason']}"
    if kind == "error":
        return f"  {data['failure']}: {data['message']}"
    return None


@contextmanager
def _detaching(client: Client, identifier: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        text = f"detached; it goes on. Come back with: TBD_SERVER={client.url} tbd watch {identifier}"
        raise CommandError(text, INTERRUPTED) from None


class _Progress:
    """Says each run that has ended, and on a terminal draws a bar below."""

    def __init__(self, client: Client, experiment: dict[str, Any]) -> None:
        self._client = client
        self._runs = path_of("experiments", experiment["id"], "runs")
        self._searches: Searches | None = None
        self._states: dict[str, str] = {}
        self._expected = sum(experiment["run_counts"].values())
        self._draws = output.is_terminal()

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._erase()

    def see(self, change: dict[str, Any]) -> None:
        """Take note of a change of state of a run."""
        run_id, state = change["run_id"], change["state"]
        before = self._states.get(run_id)
        self._states[run_id] = state
        if state in ENDED and before not in ENDED:
            self._tell(self._client.get(path_of("runs", run_id)))
        else:
            self._draw()

    def _tell(self, run: dict[str, Any]) -> None:
        """Say how a run has ended; of a try also what its search does next, and how long it may go on."""
        line = line_of(run)
        if run["plan"]["search"]:
            if self._searches is None:  # some may have ended before anybody waited
                self._searches = Searches(self._client.pages(self._runs)["items"])
            line += f"; {self._searches.take(run)}"
        self.say(line)

    def say(self, text: str) -> None:
        """Say a line above the bar."""
        self._erase()
        output.say(text)
        self._draw()

    def _draw(self) -> None:
        if not self._draws:
            return
        total = max(self._expected, len(self._states))
        ended = sum(state in ENDED for state in self._states.values())
        full = BAR_CELLS * ended // max(total, 1)
        now = ", ".join(sorted({state for state in self._states.values() if state not in (*ENDED, "queued")}))
        bar = "█" * full + "░" * (BAR_CELLS - full)
        streams.redraw(f"{bar} {ended}/{total} runs {now}")
        sys.stderr.flush()

    def _erase(self) -> None:
        if self._draws:
            streams.redraw("")
            sys.stderr.flush()


def line_of(run: dict[str, Any]) -> str:
    """A run that has ended, in one line."""
    plan = run["plan"]
    cell = f"{plan['model']} {plan['framework']} batch {plan['per_device_batch_size']} {plan['topology']}"
    if plan["search"]:
        return f"{run['id']}  {cell}: {_fits(run)}"
    return f"{run['id']}  {cell} repetition {plan['repetition']}: {outcome(run)}"


def _fits(run: dict[str, Any]) -> str:
    """What a try for the largest batch came to."""
    told = {Answer.FITS: "it fits", Answer.TOO_LARGE: "it does not fit"}
    return told.get(answer_of(run) or Answer.NONE) or outcome(run)


def outcome(run: dict[str, Any]) -> str:
    """How a run ended, in a few words."""
    if run["throughput"]:
        return f"{plain(run['throughput']['value'])} {run['throughput']['unit']}{_disturbed(run)}"
    if run["state"] == "completed":
        return _measured(run["summary"] or {}) if (run["validity"] or {}).get("grade") == "sound" else _not_sound(run)
    reason = (run["reason"] or "").removeprefix(f"{run['state']}: ")  # a failure may be called as the state is
    return f"{run['state']}: {reason}" if reason else str(run["state"])


def _measured(summary: dict[str, Any]) -> str:
    """What a run without a throughput is for: a netbench has a latency and a rate, a calibration its peaks."""
    if summary.get("flops_per_s"):
        return ", ".join(f"{name} {rate / 1e9:,.1f} GFLOP/s" for name, rate in summary["flops_per_s"].items())
    if "latency_s" not in summary:  # of a library without messages between two ranks
        rate = summary.get("all_reduce_bus_bytes_per_s")
        return f"all-reduce {memory(rate)}/s" if rate else "sound"
    return f"latency {duration(summary['latency_s'])}, {memory(summary['point_to_point_bytes_per_s'])}/s"


def _disturbed(run: dict[str, Any]) -> str:
    return f" ({_not_sound(run)})" if run["validity"]["reasons"] else ""


def _not_sound(run: dict[str, Any]) -> str:
    """The grade and the names of the reasons; the table, and tbd show, have their words."""
    validity = run["validity"] or {"grade": "broken", "reasons": []}
    return f"{validity['grade']}: {', '.join(reason['code'] for reason in validity['reasons'])}"
