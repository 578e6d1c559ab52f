"""milabench's result files as points: pure functions over the lines of its ``*.data`` files.

The format is that of github.com/mila-iqia/milabench (MIT): ``milabench/report/read.py: EventProcessor`` and
``milabench/summary.py: aggregate`` read it. A file is one process of a benchmark; a line is an event
``{event, data, pipe}``: config, meta, start, phase, data (rate and units, loss, gpudata …), line, stop, error, end.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from orchestrator.domain.around.imported_points import ImportedProcess
from orchestrator.domain.runs.wanted_precision import power, scale_of
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.domain.words.untrusted import is_time, text_problem

TOOL = "milabench"
LONGEST_LINE = 4 * 2**20  # bytes. A judgement: the longest of its own runs that was seen has 9,000
# Nothing trains as fast in any unit (an H100's dense 8-bit peak is 4e15 operations a second): beyond it is a mistake.
GREATEST_RATE = 1e16
LEAST_TO_TRIM = 5  # milabench/summary.py: _metrics leaves out the least and the greatest of so many
METHOD = (
    "milabench: mean of each process's rates of its task 'train', without the least and the greatest where there are "
    "five or more; mean over processes, Student's t between them on logarithms"
)
SCOPE = (
    "{n} of {all} processes of one milabench session: how its processes and devices differ, not how sessions do; "
    "its warm-up is not known and not cut, nothing was checked but that it ended well"
)


@dataclass
class Process:
    """What one file tells: one process of a benchmark. ``why_not``: why it gives no rate."""

    name: str
    digest: str
    config: Mapping[str, Any]
    meta: Mapping[str, Any] = field(default_factory=dict)
    started_at: float | None = None
    ended_at: float | None = None
    return_code: int | None = None
    stopped_early: bool = False
    unit: str | None = None
    rates: list[float] = field(default_factory=list)
    other_tasks: int = 0
    why_not: str | None = None

    @property
    def session(self) -> str:
        return str(self.config["run_name"])

    @property
    def benchmark(self) -> str:
        return str(self.config["name"])

    @property
    def rate(self) -> float | None:
        """Its mean rate as milabench's summary has it; None where it gives none."""
        if self.why_not is not None:
            return None
        kept = sorted(self.rates)
        return fmean(kept[1:-1] if len(kept) >= LEAST_TO_TRIM else kept)

    @property
    def told(self) -> ImportedProcess:
        """What is stored of it."""
        return ImportedProcess(
            file=self.name,
            devices=tuple(devices_of(self.config)),
            n_rates=len(self.rates),
            rate=self.rate,
            rate_min=min(self.rates, default=None),
            rate_max=max(self.rates, default=None),
            return_code=self.return_code,
            reason=self.why_not,
        )


def read_process(name: str, lines: Iterable[bytes]) -> Process | None:
    """What the file ``name`` tells; None where it is none of a process: milabench leaves a file with a message alone
    for a benchmark that it skips.

    A last line that is cut short belongs to a process that was killed while it wrote: it gives no rate.

    Raises:
        InvalidRequest: it is no file of milabench's, or not whole; the pointer names file and line.
    """
    reader = _Reader(name)
    for raw in lines:
        reader.take(raw)
    return reader.process()


class _Reader:
    """Takes the lines of one file, one after another."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._digest = hashlib.sha256()
        self._number = 0
        self._cut_short: str | None = None
        self._config: Mapping[str, Any] | None = None
        self._events: list[tuple[int, str, Mapping[str, Any]]] = []
        self._made: Process | None = None

    def take(self, raw: bytes) -> None:
        if self._cut_short is not None:
            raise self._wrong(self._cut_short)
        self._number += 1
        self._digest.update(raw)
        if len(raw) > LONGEST_LINE:
            raise self._wrong(f"a line of more than {LONGEST_LINE} bytes: this is no file of milabench's")
        try:
            event = json.loads(raw.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise self._wrong(f"it is not in UTF-8 (byte {error.start} of the line)") from None
        except (ValueError, RecursionError) as error:
            problem = f"it is no JSON: {str(error)[:200]}"
            if raw.endswith(b"\n"):
                raise self._wrong(problem) from None
            self._cut_short = problem
            return
        self._note(event)

    def _note(self, event: Any) -> None:
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            raise self._wrong("it is no event: an object with the keys event and data was expected")
        kind, data = event["event"], event.get("data")
        if kind not in ("config", "meta", "start", "data", "stop", "end"):
            return
        if not isinstance(data, dict):
            if kind == "stop":
                data = {}
            else:
                raise self._wrong(f"the data of {kind!r} is no object")
        if kind == "config":
            self._begin(data)
        elif self._made is None:
            raise self._wrong(f"{kind!r} comes before 'config': this is no file of a whole run")
        else:
            self._of_run(self._made, kind, data)

    def _begin(self, config: Mapping[str, Any]) -> None:
        if self._made is not None:
            raise self._wrong("a second 'config': the file holds two runs")
        for key in ("name", "run_name"):
            text = config.get(key)
            if not isinstance(text, str) or not text or len(text) > 300 or text_problem(text):
                raise self._wrong(f"the config's {key} is no name")
        self._made = Process(self._name, "", config)

    def _of_run(self, run: Process, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "meta":
            run.meta = data
        elif kind == "stop":
            run.stopped_early = True
        elif kind == "start":
            if run.started_at is not None:
                raise self._wrong("a second 'start': the file holds two runs")
            run.started_at = self._time(data, "start")
        elif kind == "end":
            run.ended_at = self._time(data, "end")
            code = data.get("return_code")
            if not isinstance(code, int) or isinstance(code, bool) or abs(code) > 2**31:
                raise self._wrong(f"the return code of 'end' is {_short(code)}, no integer")
            run.return_code = code
        elif "rate" in data:
            self._rate(run, data)

    def _time(self, data: Mapping[str, Any], kind: str) -> float:
        time = data.get("time")
        if isinstance(time, bool) or not is_time(time):
            raise self._wrong(f"the time of {kind!r} is {_short(time)}, no time from 1970 to 9999")
        assert isinstance(time, int | float)
        return float(time)

    def _rate(self, run: Process, data: Mapping[str, Any]) -> None:
        if data.get("task", "train") != "train":
            run.other_tasks += 1
            return
        value, unit = data["rate"], data.get("units", data.get("unit"))
        if isinstance(unit, str) and (text_problem(unit) or not unit or len(unit) > 50):
            raise self._wrong("the unit of a rate is no text that can be shown")
        if unit is not None and not isinstance(unit, str):
            raise self._wrong(f"the unit of a rate is {_short(unit)}, no text")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(f"a rate is {_short(value)}, no number")
        # Such a number may come from a run that went wrong: the run is kept, without a rate, and says why.
        if not (isinstance(value, int) or math.isfinite(value)) or not 0 < value <= GREATEST_RATE:
            run.why_not = run.why_not or f"line {self._number}: a rate of {_short(value)} is none"
            return
        if run.rates and unit != run.unit:
            run.why_not = run.why_not or f"line {self._number}: rates in {unit} after rates in {run.unit}"
        run.unit = run.unit if run.rates else unit
        run.rates.append(float(value))

    def process(self) -> Process | None:
        run = self._made
        if run is None:
            if self._cut_short is not None:
                raise self._wrong(self._cut_short)
            return None
        run.digest = self._digest.hexdigest()
        run.why_not = run.why_not or self._why_not(run)
        return run

    def _why_not(self, run: Process) -> str | None:
        if self._cut_short is not None:
            return f"it was cut off while it wrote line {self._number}"
        if run.return_code is None:
            return "it has no end: it was killed, or is still running"
        if run.return_code != 0 and not run.stopped_early:
            return f"it ended with return code {run.return_code}"
        return None if run.rates else "it tells no rate of its task 'train'"

    def _wrong(self, text: str) -> InvalidRequest:
        place = self._name.replace("~", "~0").replace("/", "~1")
        return InvalidRequest([Problem(f"/{place}/{self._number}", text)])


def _short(value: Any) -> str:
    try:
        return repr(value)[:60]
    except ValueError:  # an integer of more digits than Python prints
        return "a number of thousands of digits"


def devices_of(config: Mapping[str, Any]) -> list[int]:
    """The indices of the devices that a process held, as far as its config tells."""
    device, devices = config.get("device"), config.get("devices")
    if isinstance(devices, list):
        return [one for one in devices if isinstance(one, int)]
    return [device] if isinstance(device, int) else []


def sessions_of(processes: Sequence[Process]) -> Iterator[list[Process]]:
    """The processes of each benchmark of each session, in the order of their names; a file that is there twice counts
    once."""
    found: dict[tuple[str, str], dict[str, Process]] = {}
    for one in sorted(processes, key=lambda one: one.name):
        found.setdefault((one.session, one.benchmark), {}).setdefault(one.digest, one)
    for _, theirs in sorted(found.items()):
        yield list(theirs.values())


def digest_of(processes: Sequence[Process]) -> str:
    """What tells the files of a session from others, in whichever order they came."""
    return hashlib.sha256("".join(sorted(one.digest for one in processes)).encode()).hexdigest()


def throughput_of(processes: Sequence[Process]) -> tuple[Measurement | None, str | None]:
    """(the number of a session, why there is none): the mean over its processes that ended well, and the interval from
    what differs between them; none for a single process."""
    good = [one for one in processes if one.why_not is None]
    if not good:
        reasons = dict.fromkeys(one.why_not or "" for one in processes)
        return None, "; ".join(reasons)
    units = {one.unit for one in good}
    if len(units) > 1:
        return None, f"its processes have rates in several units: {', '.join(sorted(map(str, units)))}"
    rates = [one.rate or 0.0 for one in good]
    mean = fmean(rates)  # as milabench has it
    half = _half_width(rates)
    found = Measurement(
        "throughput",
        mean,
        next(iter(units)) or "unknown",
        METHOD,
        ci_low=mean * power(-half) if half is not None else None,
        ci_high=mean * power(half) if half is not None else None,
        confidence=0.95 if half is not None else None,
        n=float(len(good)),
        scope=SCOPE.format(n=len(good), all=len(processes)),
    )
    return found, None


def _half_width(rates: Sequence[float]) -> float | None:
    """Of the 95 % interval of the mean logarithm; None for fewer than two."""
    if len(rates) < 2:
        return None
    return scale_of([math.log(rate) for rate in rates], len(rates)) / math.sqrt(len(rates))


def workload_of(processes: Sequence[Process], source: str) -> dict[str, Any]:
    """What keys the series: what was measured, and on which model of devices. A run that failed tells all of it too."""
    first = processes[0]
    plan = first.config.get("plan")
    return {
        "tool": TOOL,
        "source": source,
        "benchmark": first.benchmark,
        "device_models": sorted({model for one in processes for model in _models(one)}),
        "devices_per_process": len(devices_of(first.config)) or None,
        "machines": _integer(first.config.get("num_machines")),
        "method": str(plan.get("method"))[:100] if isinstance(plan, dict) else None,
        "arguments": _arguments(first.config.get("argv")),
    }


def _models(one: Process) -> list[str]:
    gpus = _below(one.meta, "accelerators", "gpus")
    if not isinstance(gpus, dict):
        return []
    held = [gpus[str(device)] for device in devices_of(one.config) if str(device) in gpus] or list(gpus.values())
    return [_shown(gpu["product"]) for gpu in held if isinstance(gpu, dict) and isinstance(gpu.get("product"), str)]


def _arguments(given: Any) -> list[str]:
    """The arguments of the program, without those that name a place on a disk: these differ from machine to machine."""
    pairs = given.items() if isinstance(given, dict) else enumerate(given) if isinstance(given, list) else ()
    texts = (f"{name} {value}" if isinstance(given, dict) else str(value) for name, value in pairs)
    return [_shown(text) for text in texts if "/" not in text]


def subject_of(processes: Sequence[Process]) -> dict[str, Any]:
    """The versions that the files tell."""
    meta = processes[0].meta
    known = {
        "milabench": ("milabench", "tag"),
        "milabench_commit": ("milabench", "commit"),
        "torch": ("pytorch", "torch"),
    }
    return _told(meta, known)


def rig_of(processes: Sequence[Process]) -> dict[str, Any]:
    """The machine that the files tell."""
    known = {
        "host": ("os", "nodename"),
        "kernel": ("os", "release"),
        "cpu_model": ("cpu", "brand"),
        "driver": ("accelerators", "system", "DRIVER_VERSION"),
    }
    return _told(processes[0].meta, known)


def _told(meta: Mapping[str, Any], known: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    found = {name: _below(meta, *path) for name, path in known.items()}
    return {name: _shown(value) for name, value in found.items() if isinstance(value, str)}


def _below(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**6 else None


def _shown(text: str) -> str:
    """A text of a file as it is stored: of a length that can be shown, without what no screen should get."""
    return "".join(sign for sign in text[:200] if sign.isprintable())
