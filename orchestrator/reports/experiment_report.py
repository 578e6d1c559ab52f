"""A report of one experiment in Markdown: for a reader who was not there."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.domain.value.measurement import METRICS, OF_CONVERGENCE
from orchestrator.reports.drawing import table
from orchestrator.reports.fingerprint import machine, program
from orchestrator.reports.numbers import NOTHING, duration, quantity_text, seconds_of, short_time
from orchestrator.reports.tables import waterfall
from orchestrator.reports.tables.comparison import pairs_table
from orchestrator.reports.tables.observations import observations_table
from orchestrator.reports.tables.profile_tables import profile_tables
from orchestrator.reports.tables.results_table import (
    AXES,
    axis_text,
    cell_text,
    differing_axes,
    differing_options,
    results_table,
)
from orchestrator.reports.tables.trained import datasets_table, models_table

Json = Mapping[str, Any]
BESIDE = 6  # cells beside each other in the table of all that was measured: a judgement
KERNELS = 5  # of a profile, as in TBD's tables

_HOW = """\
* Each number is the mean over *runs*: fresh processes, in blocks of one repetition of every cell. Its 95 % interval
  comes from the variance between runs by Student's t. Rates, times and bytes are positive: their mean is the geometric
  one and their interval is made on logarithms, so that it never reaches 0. It is written ± where both its sides round
  to the same, else (… to …). Steps of one process are not independent repetitions, so a single run has no interval.
* A run that trained rightly counts, however its own times look. Only a cause that was measured apart from them (foreign
  load, stolen time, swapping, a shared or throttled device) marks it as disturbed; it is then replaced, or, where fewer
  than four runs are sound, all planned runs count and the cell says so. A run that trained wrongly has a reason instead
  of a number.
* Step times are percentiles over the timed intervals of a run, averaged over runs. CPU is the active time of the
  logical cores of the attempt's set divided by (cores x elapsed). Peak memory is that of the run's processes or device,
  by the method named below.
* Cells are compared block by block: what a block has in common, such as a slow hour, is no difference between cells. A
  table is one family: Holm's procedure keeps the chance of any false difference in it at 5 %."""


def experiment_report(
    experiment: Json,
    rows: Sequence[Json],
    runs: Sequence[Json],
    models: Sequence[Json],
    comparisons: Sequence[Json],
    waterfalls: Sequence[Json] = (),
    datasets: Sequence[Json] = (),
    kernels: Sequence[tuple[str, Json]] = (),
) -> str:
    """The report.

    Args:
        experiment, rows, runs, models: as REST answers them; runs newest first.
        comparisons: REST's answer for each axis that has several values, framework first.
        waterfalls: REST's answer for each cell of several devices.
        datasets: as REST answers them.
        kernels: of each cell that was profiled so (its name, REST's answer for one of its runs).
    """
    rows, runs, models, comparisons, waterfalls, datasets, kernels = map(
        table.plain_text, (rows, runs, models, comparisons, list(waterfalls), list(datasets), list(kernels))
    )
    parts = [
        f"# {table.plain_text(experiment['name'])}",
        _question(experiment, rows),
        "## Results",
        _results(rows, experiment["state"]),
        *_compared(comparisons),
        *_explained(waterfalls),
        _measured(rows),
        *_kernels(kernels),
        *_remarks(rows, runs),
        *_trained(rows, models, datasets),
        "## How it was measured",
        _HOW,
        _methods(rows, models),
        "## Where, and with what",
        _machines(rows, runs),
        "## Reproduce",
        _reproduce(experiment),
    ]
    return "\n\n".join(part for part in parts if part)


def observed(observations: Sequence[Json]) -> str:
    """The section that says which of the TBD paper's observations hold on the experiments of a report, as REST answers
    it for these."""
    found = observations_table(table.plain_text(list(observations)))
    told = [row[:4] for row in found.rows if row[2] in ("holds", "does not")]
    rest: dict[str, list[str]] = {}
    for row in found.rows:
        if row[2] not in ("holds", "does not"):
            rest.setdefault(row[2], []).append(row[0])
    parts = [
        "## What the TBD paper observed",
        "Zhu et al., IISWC 2018, on the sound results of one device above.",
        table.markdown(found.headers[:4], told) if told else "",
        *(f"{why.capitalize()}: {', '.join(numbers)}." for why, numbers in rest.items()),
    ]
    return "\n\n".join(part for part in parts if part)


def _question(experiment: Json, rows: Sequence[Json]) -> str:
    told = []
    for axis, many in (("model", "models"), ("framework", "frameworks"), ("per_device_batch_size", "batch sizes")):
        values = list(dict.fromkeys(axis_text(row["axes"][axis]) for row in rows))
        told.append((AXES[axis] if len(values) == 1 else many) + " " + ", ".join(values))
    ended = experiment["ended_at"]
    took = f", took {duration(seconds_of(ended) - seconds_of(experiment['created_at']))}" if ended else ""
    counts = ", ".join(f"{count} {state}" for state, count in experiment["run_counts"].items() if count)
    labels = table.plain_text(axis_text(experiment["spec"]["labels"]))
    label = f" Labels: {labels}." if labels != NOTHING else ""
    return (
        f"How fast does training go? {'; '.join(told)}.\n\nExperiment `{experiment['id']}`, {experiment['state']}, "
        f"submitted {short_time(experiment['created_at'])} UTC{took}. Runs: {counts}.{label}"
    )


def _results(rows: Sequence[Json], state: str) -> str:
    if not rows:
        return f"There are no results{' yet' if state == 'active' else ''}."
    found = results_table(rows)
    same = f"The same in all cells: {found.common}.\n\n" if found.common else ""
    notes = "\n\n" + "\n".join(f"* {note}" for note in found.notes) if found.notes else ""
    return same + table.markdown(found.headers, found.rows) + notes


def _compared(comparisons: Sequence[Json]) -> Iterator[str]:
    """The cells against each other, by each axis that has several values. Each axis is a family of its own."""
    told = [found for found in comparisons if found["items"]]
    if told:
        yield "## Comparison"
    for found in told:
        compared = pairs_table(found)
        notes = "\n".join(f"* {note}" for note in compared.notes)
        yield f"{compared.common.capitalize()}:\n\n{table.markdown(compared.headers, compared.rows)}\n\n{notes}"
    if len(told) > 1:
        yield "Each of these tables is a family by itself: the more one looks at, the more chance finds."


def _explained(waterfalls: Sequence[Json]) -> Iterator[str]:
    if waterfalls:
        yield "## Where the time of several devices goes"
        yield "An iteration, from one device to what was measured; each part with its 95 % interval."
    yield from map(waterfall.markdown, waterfalls)


def _kernels(kernels: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Where a profiled step went, and which of the longest kernels use the GPU less than all do on average (TBD's
    Tables 5 and 6)."""
    if kernels:
        yield "## Kernels"
    for name, found in kernels:
        for one in profile_tables("kernels", found, KERNELS):
            notes = "\n".join(f"* {note}" for note in one.notes)
            yield f"{name}: {one.common}:\n\n{table.markdown(one.headers, one.rows)}\n\n{notes}".rstrip()


def _trained(rows: Sequence[Json], models: Sequence[Json], datasets: Sequence[Json]) -> Iterator[str]:
    told = [one for one in (models_table(rows, models), datasets_table(rows, datasets)) if one.rows]
    if told:
        yield "## What was trained, and on what"
    for one in told:
        yield table.markdown(one.headers, one.rows)
        yield "\n".join(f"* {note}." for note in one.notes)


def _cell_name(row: Json, rows: Sequence[Json]) -> str:
    axes = differing_axes(rows) or ["model"]
    differing = differing_options([one["axes"]["options"] for one in rows])
    return ", ".join(f"{AXES[axis]} {cell_text(row['axes'], axis, differing)}" for axis in axes)


def _remarks(rows: Sequence[Json], runs: Sequence[Json]) -> Iterator[str]:
    lines = []
    cell_of = {run_id: row for row in rows for run_id in row["run_ids"]}
    for run in reversed(runs):
        row, validity = cell_of.get(run["id"]), run["validity"]
        if row and validity and validity["reasons"]:
            texts = "; ".join(reason["text"] for reason in validity["reasons"])
            name = f"{_cell_name(row, rows)}, repetition {run['plan']['repetition']} (`{run['id']}`)"
            lines.append(f"* {name}, {validity['grade']}: {texts}.")
    for run in reversed(runs):
        failure = run["failure"]
        if failure and failure["stderr_tail"].strip():
            tail = table.code_block("\n".join(failure["stderr_tail"].rstrip().splitlines()[-8:]), "  ")
            lines.append(f"* Run `{run['id']}` ended as {failure['kind']}. The end of its stderr:\n\n{tail}\n")
    if lines:
        yield "## What went wrong, or was disturbed\n\n" + "\n".join(lines)


def _methods(rows: Sequence[Json], models: Sequence[Json]) -> str:
    wanted = {row["axes"]["model"] for row in rows}
    lines = [
        f"* {model['name']}: one unit of work is {model['work_unit_definition'].rstrip('.')}."
        for model in models
        if model["name"] in wanted
    ]
    methods: dict[str, set[str]] = {}
    for row in rows:
        for metric in ("throughput", "cpu_utilization_ratio", "compute_utilization_ratio", "peak_memory_bytes"):
            if row[metric]:
                methods.setdefault(metric, set()).add(row[metric]["method"])
    lines += [f"* `{metric}`: {'; '.join(sorted(found))}." for metric, found in methods.items()]
    return "\n".join(lines)


def _measured(rows: Sequence[Json]) -> str:
    """All that was measured, cells side by side, and in one line what was not."""
    rated = [row for row in rows if row["throughput"]]
    if not rated:
        return ""
    there = [metric for metric in METRICS if any(row[metric] for row in rated)]
    parts = ["## All that was measured"]
    for start in range(0, len(rated), BESIDE):
        some = rated[start : start + BESIDE]
        lines = [[_words(metric), *(_value(row, metric) for row in some)] for metric in there]
        parts.append(table.markdown(["", *(_cell_name(row, rows) for row in some)], lines))
    absent = [metric for metric in METRICS if metric not in there and metric not in OF_CONVERGENCE]
    if absent:
        named = ", ".join(f"`{metric}`" for metric in absent)
        parts.append(f"Not measured: {named}. `tbd results --json` has the reason of each.")
    return "\n\n".join(parts)


def _words(metric: str) -> str:
    return f"{METRICS[metric][1]} (`{metric}`)"


def _value(row: Json, metric: str) -> str:
    return quantity_text(metric, row[metric]) if row[metric] else NOTHING


def _machines(rows: Sequence[Json], runs: Sequence[Json]) -> str:
    prints = [run["fingerprint"] for run in runs if run["fingerprint"]]
    lines: dict[str, None] = {}
    for one in prints:
        for name, node in ((one.get("rig") or {}).get("nodes") or {}).items():
            lines[f"* Node `{name}`: {machine(node)}"] = None
        for device in (one.get("workload") or {}).get("device_models") or []:
            lines[f"* Device: {device}"] = None
    for one in prints:
        lines[f"* {program(one.get('subject') or {})}"] = None
    if not lines:
        return "No log tells."
    return "\n".join(lines)


def _reproduce(experiment: Json) -> str:
    spec = {name: value for name, value in experiment["spec"].items() if value not in (None, [], {})}
    lines = "\n".join(f"{name}: {json.dumps(value)}" for name, value in spec.items())
    return f"Save as `{experiment['name']}.yaml` and run `tbd run {experiment['name']}.yaml`:\n\n```yaml\n{lines}\n```"
