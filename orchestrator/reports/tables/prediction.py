"""Predictions as a person reads them: what to expect of cells, and how near earlier ones came."""

import json
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from orchestrator.reports.drawing import table
from orchestrator.reports.numbers import NOTHING, ends_of, percent, plain, with_interval
from orchestrator.reports.tables.results_table import cell_text, columns_of, differing_options

Json = Mapping[str, Any]
BUCKET = "bucket_mib"

# The few words of a column's head: axes as the table of results has them.
_HEADS = {"per_device_batch_size": "batch"}


def text(found: Json, width: int | None = None) -> str:
    """What was predicted of a spec, what that rests on, and what lacks for the rest."""
    items = found["items"]
    lines = [_table(items, [("predicted (90 % CI)", _rate), *_PARTS, *_ends(items)], width)] if items else []
    lines += _best_buckets(items)
    lines += dict.fromkeys(note for one in items for note in _notes(one))
    for one in found["missing"]:
        lines.append(f"missing: {one['what']}" + (f": {one['command']}" if one["command"] else ""))
    return "\n".join(lines)


def judged_text(items: Sequence[Json], width: int | None = None) -> str:
    """Every prediction beside what was measured, and the errors by strategy, fabric and distance."""
    if not items:
        return "nothing was predicted yet: tbd predict SPEC.yaml"
    whole = _table(items, [("predicted (90 % CI)", _rate), ("measured", _measured), ("error", _error)], width)
    kinds: dict[tuple[str, ...], list[Json]] = {}
    for one in items:
        if one["error_ratio"] is not None:
            kinds.setdefault(_kind(one), []).append(one)
    if not kinds:
        return f"{whole}\nnone of these cells was measured"
    rows = [[*kind, *_summary(ones)] for kind, ones in sorted(kinds.items())]
    heads = ["framework", "strategy", "fabric", "from", "judged", "median error", "within interval"]
    return f"{whole}\n\n{table.text(heads, rows, width)}"


def _table(items: Sequence[Json], columns: Sequence[Any], width: int | None) -> str:
    axes = columns_of(items)
    differing = differing_options([one["axes"]["options"] for one in items])
    rows = [
        [*(cell_text(one["axes"], axis, differing) for axis in axes), *(tell(one) for _, tell in columns)]
        for one in items
    ]
    return table.text([*(_HEADS.get(axis, axis) for axis in axes), *(head for head, _ in columns)], rows, width)


def _best_buckets(items: Sequence[Json]) -> Iterator[str]:
    """Of cells that differ in how much is exchanged at once only, the quickest."""
    alike: dict[str, list[Json]] = {}
    for one in items:
        options = {name: value for name, value in one["axes"]["options"].items() if name != BUCKET}
        alike.setdefault(json.dumps(one["axes"] | {"options": options}, sort_keys=True), []).append(one)
    for ones in alike.values():
        if len({one["axes"]["options"].get(BUCKET) for one in ones}) > 1:
            best = max(ones, key=lambda one: float(one["throughput"]["value"]))["axes"]
            cell = f"{best['model']}, {best['framework']} {best['strategy']}, {best['topology']}"
            yield f"{cell}, batch {best['per_device_batch_size']}: quickest with {BUCKET} {best['options'].get(BUCKET)}"


def _rate(one: Json) -> str:
    return f"{with_interval(one['throughput'])} {one['throughput']['unit']}"


def _ms(seconds: float) -> str:
    return f"{plain(seconds * 1e3, 3)} ms"


_PARTS = (
    ("efficiency", lambda one: percent(one["efficiency"])),
    ("iteration", lambda one: _ms(one["iteration_s"])),
    ("of it exposed exchange", lambda one: _ms(one["parts"][-1]["seconds"])),
)


def _ends(items: Sequence[Json]) -> Iterator[tuple[str, Any]]:
    """How far each scales, where that was asked for."""
    asked = [one["until"] for one in items if one["until"]]
    if asked:
        wanted = percent(asked[0]["efficiency"])
        yield f"nodes with {wanted}", lambda one: NOTHING if not one["until"] else _nodes(one["until"])
        yield f"bandwidth for {wanted}", lambda one: NOTHING if not one["until"] else _bandwidth(one["until"])


def _nodes(until: Json) -> str:
    return "fewer" if until["nodes"] is None else f"up to {until['nodes']}"


def _bandwidth(until: Json) -> str:
    return "none does" if until["bits_per_s"] is None else f"{plain(until['bits_per_s'] / 1e9, 3)} Gbit/s"


def _notes(one: Json) -> Iterator[str]:
    """What a prediction rests on, and how far it is to be trusted."""
    rests = one["rests_on"]
    count, batch = len(rests["run_ids"]), rests["profiled_batch"]
    told = f"one device: {count} profiled run{'s' * (count > 1)} of batch {batch} ({rests['run_ids'][0]})"
    if rests["step_batches"]:
        told += f", grown by steps of batch {' and '.join(map(str, rests['step_batches']))}"
    if rests["netbench_run"]:
        beside = {"idle": "idle cores", "busy-cores": "busy cores"}.get(rests["beside"], rests["beside"])
        what = "replays, the newest of them" if rests["beside"] == "backward-pass" else f"netbench beside {beside}"
        told += f"; exchange: {what}, on {rests['netbench_ranks']} ranks ({rests['netbench_run']})"
    elif rests["fabric"]:
        told += f"; exchange: the strategy's algorithm over {rests['fabric']}"
    yield told
    if rests["disturbed"]:
        yield f"{rests['netbench_run']} was disturbed, and there is no better netbench"
    if rests["beyond"]:
        yield f"{rests['beyond']} exchanges of an iteration are of sizes that were not measured"
    yield f"{rests['judged']} earlier predictions of {one['axes']['strategy']} were judged" + (
        "" if rests["judged"] >= 9 else ": with fewer than 9 the interval is a guess, a factor of two"
    )


def _measured(one: Json) -> str:
    return NOTHING if one["measured"] is None else f"{plain(one['measured'])} ({one['n_measured']})"


def _error(one: Json) -> str:
    return NOTHING if one["error_ratio"] is None else f"{one['error_ratio'] * 100:+.1f} %"


def _kind(one: Json) -> tuple[str, ...]:
    axes, rests = one["axes"], one["rests_on"]
    distance = f"{rests['netbench_ranks']} ranks" if rests["netbench_run"] else rests["fabric"] or "one device"
    if axes["per_device_batch_size"] != rests["profiled_batch"]:
        distance += ", another batch"
    return axes["framework"], axes["strategy"], axes["fabric"] or NOTHING, distance


def _summary(ones: Sequence[Json]) -> list[str]:
    ends = [(one["measured"], ends_of(one["throughput"])) for one in ones]
    within = [low <= value <= high for value, both in ends if both for low, high in [both]]
    errors = [abs(one["error_ratio"]) for one in ones]
    return [str(len(ones)), percent(median(errors)), f"{sum(within)} of {len(within)}"]
