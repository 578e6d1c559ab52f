"""The history of a series: a plot for the terminal, and a table."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from orchestrator.reports.drawing import plot
from orchestrator.reports.numbers import NOTHING, seconds_of, short_digests, with_interval
from orchestrator.reports.tables.results_table import Table, axis_text, differing_options

Json = Mapping[str, Any]
MOST_BORDERS = 26  # named in a plot: a judgement
DAY_S = 86_400.0
_SAID = ("model", "framework", "strategy", "size", "precision", "topology", "per_device_batch_size", "data", "device")


def workload_text(workload: Json, options: Collection[str] | None = None) -> str:
    """What a series measures, in a line: with these of its options, or (None) with all."""
    if workload.get("tool"):
        return _imported_text(workload)
    said = []
    for name in _SAID:
        value = workload.get(name)
        if value not in (None, "", "synthetic"):
            said.append(f"batch {value}" if name == "per_device_batch_size" else axis_text(value))
    if workload.get("data_sha256"):
        said.append(f"files {workload['data_sha256'][:12]}…")
    said += [", ".join(workload.get("device_models") or [])]
    if workload.get("exclusive"):
        said.append(f"exclusive: {workload['exclusive']}")
    if workload.get("data_on"):
        said.append(f"data on {workload['data_on']}")
    chosen = workload.get("options") or {}
    said += [f"{name} {axis_text(chosen[name])}" for name in sorted(chosen) if options is None or name in options]
    return ", ".join(part for part in said if part)


def _imported_text(workload: Json) -> str:
    """The same of a series that another tool measured."""
    source = f" from {workload['source']}" if workload["source"] else ""
    said = [f"imported: {workload['tool']} {workload['benchmark']}{source}", *workload["arguments"]]
    return ", ".join([*said, *workload["device_models"]])


def series_table(items: Sequence[Json]) -> Table:
    """One line per series, with the options in which they differ."""
    rows = [
        [item["key"], str(item["n_points"]), item["last_at"][:16].replace("T", " "), text]
        for item, text in zip(items, _told_apart([item["workload"] for item in items]), strict=True)
    ]
    others = any(item["workload"].get("tool") for item in items)
    note = "imported series were measured by other tools: nothing of tbd is compared with them (docs/use/export.md)"
    return Table("", ["series", "points", "newest (UTC)", "workload"], rows, [note] if others else [])


def _told_apart(workloads: Sequence[Json]) -> list[str]:
    """What each measures. Those of which one would read the same have what else they differ in, such as the seed."""
    differing = differing_options([workload.get("options") or {} for workload in workloads])
    texts = [workload_text(workload, differing) for workload in workloads]
    alike: dict[str, list[Json]] = {}
    for workload, text in zip(workloads, texts, strict=True):
        alike.setdefault(text, []).append(workload)
    differ = {
        text: [name for name in dict.fromkeys(chain(*found)) if len({repr(one.get(name)) for one in found}) > 1]
        for text, found in alike.items()
    }
    return [
        ", ".join([text, *(f"{name} {axis_text(workload[name])}" for name in differ[text] if name in workload)])
        for workload, text in zip(workloads, texts, strict=True)
    ]


def history_table(found: Json) -> Table:
    """One line per point, the oldest first: what is the same for all above it, the baselines below."""
    items, places = found["items"], found["places"]
    night = _night_text(found)
    several = len(found["lines"]) > 1
    names = sorted({item["experiment_name"] for item in items})
    headers = ["night (UTC)", f"{found['unit'] or 'throughput'} (95 % CI)", "grade", "runs"]
    headers += ["interpreter"] if several else []
    headers += ["on"] if len(places) > 1 else []
    headers += ["experiment", "border"]
    rows = [
        [
            night(item),
            with_interval(item["throughput"]),
            grade_text(item),
            str(item["n_used"]) if item["n_used"] == item["n_runs"] else f"{item['n_used']} of {item['n_runs']}",
            *([item["interpreter"]] if several else []),
            *([_markers(item)] if len(places) > 1 else []),
            item["experiment_id"] if len(names) == 1 else f"{item['experiment_id']} {item['experiment_name']}",
            _last_column(item),
        ]
        for item in items
    ]
    common = [f"experiments {names[0]}"] if len(names) == 1 else []
    common += [f"on {places[0]['name']}"] if len(places) == 1 else []
    return Table(", ".join(common), headers, rows, _notes(found, night))


def findings_table(found: Json) -> Table:
    """What the gate says of the series, a line each."""
    names = {place["id"]: place["name"] for place in found["places"]}
    night, items = _night_text(found), {item["number"]: item for item in found["items"]}
    rows = [
        [
            night(items[one["point"]]),
            names[one["place"]],
            f"{one['difference']:+.1%}",
            one["state"],
            short_digests(one["text"]),
        ]
        for one in found["findings"]
    ]
    return Table("", ["since (UTC)", "on", "nights differ by", "state", "what is said"], rows, [])


def finding_lines(found: Json) -> list[str]:
    """What is said of the series, a line each; those of several lines say of which."""
    names = {line["line"]: f"{line['interpreter']}: " for line in found["lines"]} if len(found["lines"]) > 1 else {}
    return [f"* {names.get(one['line'], '')}{short_digests(one['text'])}" for one in found["findings"]]


def _markers(item: Json) -> str:
    return " ".join(plot.marker(one["place"]) for one in item["sessions"]) or NOTHING


def grade_text(item: Json) -> str:
    if item["n_open"]:
        return "runs go on"
    reasons = sorted({reason["code"] for reason in item["reasons"]})
    return f"{item['grade']} ({', '.join(reasons)})" if reasons else str(item["grade"])


def _last_column(item: Json) -> str:
    told = list(map(short_digests, item["borders"]))
    if item["reason"]:
        told.append(f"no number: {item['reason']}")
    return "; ".join(told)


def _night_text(found: Json) -> Callable[[Json], str]:
    """How a point is named: by its minute, or by its second where several are of one minute."""
    minutes = [item["at"][:16] for item in found["items"]]
    digits = 16 if len(set(minutes)) == len(minutes) else 19
    return lambda item: str(item["at"][:digits].replace("T", " "))


def _notes(found: Json, night: Callable[[Json], str]) -> list[str]:
    told = [f"{found['n_left_out']} older points are left out"] if found["n_left_out"] else []
    items = {item["number"]: item for item in found["items"]}
    names = {place["id"]: place["name"] for place in found["places"]}
    for one in found["baselines"]:
        first, last = (night(items[one["points"][end]]) for end in (0, -1))
        sessions = "1 session" if one["n_sessions"] == 1 else f"{one['n_sessions']} sessions"
        graded = "" if one["grade"] == "sound" else f", {one['grade']}"
        level = with_interval(one["level"])
        told.append(f"baseline on {names[one['place']]}, {first} to {last}: {level} ({sessions}{graded})")
    return told + [
        f"damaged: {one['table']} {one['id']}: {one['reason']}: {one['way_out']}" for one in found["damaged"]
    ]


def history_plot(found: Json, width: int) -> str:
    """The plot with its legend.

    Raises:
        ValueError: no point has a number.
    """
    what = shown(found)
    return "\n".join([plot.text(what, width), "", *_legend(found, bool(what.absent))])


def shown(found: Json) -> plot.Plot:
    """What a plot or a figure of a series has; no marks where no point has a number."""
    points = {item["number"]: seconds_of(item["at"]) for item in found["items"]}
    borders = [plot.Border(points[number], name) for number, name in _named_borders(found).items()]
    absent = [points[item["number"]] for item in found["items"] if item["throughput"] is None]
    first, last = min(points.values()), max(points.values())
    ends = (_time(first, last - first), _time(last, last - first))
    return plot.Plot(_marks(found), _levels(found, points), borders, absent, ends)


def border_lines(found: Json) -> list[str]:
    """What changed at each border that is named, a line each."""
    items = {item["number"]: item for item in found["items"]}
    night = _night_text(found)
    told = {n: short_digests("; ".join(items[n]["borders"])) for n in _named_borders(found)}
    return [f"{name}  {night(items[n])}  {told[n]}" for n, name in _named_borders(found).items()]


def _levels(found: Json, points: Mapping[int, float]) -> list[plot.Level]:
    return [
        plot.Level(points[one["points"][0]], points[one["points"][-1]], one["level"]["value"])
        for one in found["baselines"]
    ]


def _marks(found: Json) -> list[plot.Mark]:
    """The point itself with its interval where one place gave it, else each place's part of it."""
    made = []
    for item in found["items"]:
        at, rate = seconds_of(item["at"]), item["throughput"]
        if not rate or not isinstance(rate["value"], int | float):
            continue
        if len(item["sessions"]) > 1:
            made += [plot.Mark(at, one["value"], plot.marker(one["place"])) for one in item["sessions"]]
        else:
            sign = plot.marker(item["sessions"][0]["place"]) if item["sessions"] else "?"
            made.append(plot.Mark(at, rate["value"], sign, _finite(rate["ci_low"]), _finite(rate["ci_high"])))
    return made


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _named_borders(found: Json) -> dict[int, str]:
    """Number of the point that a border is before -> its letter."""
    numbers = [item["number"] for item in found["items"] if item["borders"]][:MOST_BORDERS]
    return {number: chr(ord("A") + place) for place, number in enumerate(numbers)}


def _legend(found: Json, has_absent: bool) -> list[str]:
    told = [f"{plot.marker(place['id'])} {place['name']}" for place in found["places"][:MOST_BORDERS]]
    told += [f"{plot.LEVEL} level of a baseline"]
    told += [f"{plot.ABSENT} no number"] if has_absent else []
    return ["   ".join(told), *border_lines(found)]


def _time(seconds: float, span_s: float) -> str:
    """A time on an axis that spans ``span_s``."""
    form = "%Y-%m-%d" if span_s > 4 * DAY_S else "%m-%d %H:%M" if span_s > DAY_S / 24 else "%H:%M:%S"
    return f"{datetime.fromtimestamp(seconds, UTC):{form}}"
