"""Prints experiments, runs and results for a person."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.cli.printing import output
from orchestrator.domain.runs.device_time import DeviceTime, Held, together
from orchestrator.reports import comparison
from orchestrator.reports.drawing import table
from orchestrator.reports.fingerprint import machine, program
from orchestrator.reports.numbers import NOTHING, duration, percent, plain, quantity_text, seconds_of, short_time
from orchestrator.reports.results_table import Table, axis_text, results_table

Json = Mapping[str, Any]
MOST_LINES = 20  # of a comparison below a table: a judgement
ENDINGS = {"completed": "completed", "failed": "failed", "cancelled": "been cancelled"}


def print_results(rows: Sequence[Json], state: str = "active") -> None:
    """The table of results, what is the same for all cells above it, notes below. ``state``: of their experiment."""
    if not rows:
        output.say("no results yet" if state == "active" else f"no results: the experiment has {ENDINGS[state]}")
        return
    print_table(results_table(rows))


def print_pairs(found: Json) -> None:
    """A line a pair, which goes below a table of results; notes below."""
    print()
    told = comparison.pair_lines(found)
    for line in told[:MOST_LINES]:
        print("\n".join(output.wrapped(line)))
    if len(told) > MOST_LINES:
        output.print_dim(f"… and {len(told) - MOST_LINES} more pairs: tbd compare EXPERIMENT --by {found['axis']}")
    for note in comparison.pair_notes(found):
        output.print_dim(note)


def print_table(found: Table) -> None:
    """A table: what is the same for all rows above it, notes below."""
    if found.common:
        output.print_dim(found.common)
    if found.rows:
        print(table.text(found.headers, found.rows, output.width()))
    for note in found.notes:
        output.print_dim(note)


def print_experiment(experiment: Json, rows: Sequence[Json], runs: Sequence[Json]) -> None:
    """An experiment: its state, its results, and each run that is not simply completed."""
    counts = ", ".join(f"{count} {name}" for name, count in experiment["run_counts"].items() if count)
    pairs = [
        ("experiment", f"{experiment['id']}  {experiment['name']}"),
        ("state", output.state(experiment["state"]) + _what_was_asked(experiment)),
        ("runs", counts),
        ("submitted", f"{short_time(experiment['created_at'])} UTC{_took(experiment, 'created_at')}"),
        ("time", time_line(together(map(_held, filter(lambda run: run["device_time"], runs))))),
        ("labels", axis_text(experiment["spec"]["labels"])),
    ]
    _print_pairs([pair for pair in pairs if pair[1] not in ("", NOTHING)])
    print()
    print_results(rows, experiment["state"])
    remarkable = [run for run in reversed(runs) if run["reason"] or run["state"] in ("placing", "running")]
    if remarkable:
        print()
        cells = [
            [run["id"], _cell_of(run["plan"]), output.state(run["state"]), run["reason"] or ""] for run in remarkable
        ]
        print(table.text(["run", "cell", "state", "why not sound, or why it waits"], cells, output.width()))


def _held(run: Json) -> Held:
    last, told = run["attempts"][-1], {name: run["device_time"][name] for name in asdict(DeviceTime())}
    devices = frozenset(f"{share['node']} {one['id']}" for share in last["placement"] for one in share["devices"])
    return Held(DeviceTime(**told), devices, seconds_of(last["created_at"]), seconds_of(last["ended_at"]))


def time_line(time: DeviceTime) -> str:
    """Where the time of devices went, as one line; empty where there is none."""
    if time.timed_ratio is None:
        return ""
    parts = {one.removesuffix("_s").replace("warmup", "warm-up"): value for one, value in asdict(time).items()}
    told = ", ".join(f"{part} {duration(value) if value >= 120 else f'{value:.1f} s'}" for part, value in parts.items())
    return f"timed work {percent(time.timed_ratio, 2)} of the devices' time: {told}"


def _cell_of(plan: Json) -> str:
    return f"{plan['framework']} {plan['per_device_batch_size']} {plan['topology']} #{plan['repetition']}"


def _what_was_asked(experiment: Json) -> str:
    if _is_ending(experiment):
        return " (to be cancelled)"
    return " (paused)" if experiment["paused"] else ""


def _is_ending(thing: Json) -> bool:
    return bool(thing["cancel_requested"]) and thing["ended_at"] is None


def print_run(run: Json, measurements: Sequence[Json]) -> None:
    """A run: its state and why, its attempts, its grade, what was measured, where it ran."""
    plan = run["plan"]
    cell = f"{plan['model']} {plan['framework']} ({plan['strategy']}, {plan['interpreter']}) {plan['topology']}"
    more = f"batch {plan['per_device_batch_size']}, {plan['size']}, {plan['data']}, {plan['precision']}"
    pairs = [
        ("run", f"{run['id']}  of {run['experiment_id']}"),
        ("plan", f"{cell}, {more}, {plan['device']}, repetition {plan['repetition']}"),
        ("options", axis_text(plan["options"])),
        ("state", output.state(run["state"]) + (" (to be cancelled)" if _is_ending(run) else "")),
        ("why", run["reason"] or ""),
        ("took", _took(run, "started_at").strip(" ()")),
        ("time", time_line(_held(run).time) if run["device_time"] else ""),
        ("grade", _grade(run["validity"])),
        ("findings", "; ".join((run["validity"] or {}).get("notes") or [])),
    ]
    _print_pairs([pair for pair in pairs if pair[1] not in ("", NOTHING)])
    for attempt in run["attempts"]:
        print(_attempt(attempt))
    _print_failure(run["failure"])
    _print_measurements(measurements)
    _print_summary(run["summary"] or {})
    _print_fingerprint(run["fingerprint"] or {})


def _print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    for name, text in pairs:
        print(f"{output.coloured(f'{name:<12}', 'dim')}{output.one_line(text)}")


def _took(thing: Json, start: str) -> str:
    if not thing[start] or not thing["ended_at"]:
        return ""
    return f" ({duration(seconds_of(thing['ended_at']) - seconds_of(thing[start]))})"


def _grade(validity: Json | None) -> str:
    if validity is None:
        return ""
    if validity["grade"] == "sound":
        return output.coloured("sound", "green")
    reasons = "; ".join(reason["text"] for reason in validity["reasons"])
    return output.coloured(validity["grade"], "red") + f": {reasons}"


def _attempt(attempt: Json) -> str:
    places = "; ".join(
        f"{share['node']}: {', '.join(device['id'] for device in share['devices'])}" for share in attempt["placement"]
    )
    ended = f", {attempt['failure']['kind']}" if attempt["failure"] else ""
    return f"{output.coloured('attempt ' + str(attempt['number']).ljust(4), 'dim')}{places}{ended}"


def _print_failure(failure: Json | None) -> None:
    if not failure or not failure["stderr_tail"].strip():
        return
    print("\nthe end of its stderr:")
    for line in failure["stderr_tail"].rstrip().splitlines()[-15:]:
        print(f"  {line}")


def _print_measurements(measurements: Sequence[Json]) -> None:
    if not measurements:
        return
    print()
    rows = [
        [_name(one), quantity_text(one["metric"], one), _interval(one), one["reason"] or ""] for one in measurements
    ]
    print(table.text(["metric", "value", "95 % interval within the run", "why there is none"], rows, output.width()))
    print(output.coloured("How each was made: tbd show RUN --measurements", "dim"))


def print_methods(measurements: Sequence[Json]) -> None:
    """What was measured and how it was made."""
    rows = [[_name(one), quantity_text(one["metric"], one), one["reason"] or one["method"]] for one in measurements]
    print(table.text(["metric", "value", "method, or why there is none"], rows, output.width()))
    versions = sorted({str(one["code_version"]) for one in measurements})
    if versions:
        print(output.coloured(f"Computed by {', '.join(versions)}; what today's code would say: tbd analyse", "dim"))


def _name(measurement: Json) -> str:
    return measurement["metric"] + (f" [{measurement['subject']}]" if measurement["subject"] else "")


def _interval(measurement: Json) -> str:
    low, high = measurement["ci_low"], measurement["ci_high"]
    if low is None or high is None:
        return ""
    ends = (quantity_text(measurement["metric"], {**measurement, "value": end}) for end in (low, high))
    return " to ".join(ends)


def _print_summary(summary: Json) -> None:
    _print_curve(summary.get("convergence") or {})
    others = ((name, value) for name, value in summary.items() if name not in ("convergence", "device_time"))
    pairs = [(str(name), _words(value)) for name, value in others if not isinstance(value, list)]
    if pairs:
        print("\nwhat the log says")
        for name, text in pairs:
            print(f"  {name.replace('_', ' ')}: {text}")


def _print_curve(told: Json) -> None:
    """Of a run to convergence: the quality over the time of its training."""
    if not told.get("curve"):
        return
    wanted = "" if told["target"] is None else f", the target is {told['target']:g}"
    print(f"\n{told['metric']} on samples that are kept apart ({told['better']} is better{wanted})")
    headers = ["step", "trained", "with evaluations", "quality", "loss", "samples"]
    rows = [
        [
            str(one["step"]),
            duration(one["trained_s"]),
            duration(one["elapsed_s"]),
            plain(one["quality"]),
            plain(one["loss"]),
            str(one["samples"]),
        ]
        for one in told["curve"]
    ]
    print(table.text(headers, rows))
    budget = told.get("epochs")
    if budget:
        steps = f"the budget of {budget['max_epochs']:g} was {budget['max_steps']} steps"
        print(f"an epoch has {budget['samples']} samples: {steps}")
    resumed = told.get("resumed")
    if resumed:
        lost = f"{duration(resumed['lost_s'])} after that checkpoint are in no time"
        print(f"resumed at step {resumed['step']}, from a checkpoint of attempt {resumed['attempt_id']}; {lost}")


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        given = {name: item for name, item in value.items() if item is not None}
        return "; ".join(f"{name.replace('_', ' ')} {_words(item)}" for name, item in given.items())
    return plain(value) if isinstance(value, float) else str(value)


def _print_fingerprint(fingerprint: Json) -> None:
    if not fingerprint:
        return
    subject, rig = fingerprint.get("subject") or {}, fingerprint.get("rig") or {}
    print("\nfingerprint")
    print(
        f"  workload {fingerprint.get('workload_key')}  subject {fingerprint.get('subject_key')}  "
        f"rig {fingerprint.get('rig_key')}"
    )
    machines = [f"{name}: {machine(node)}" for name, node in (rig.get("nodes") or {}).items()]
    for text in (program(subject), *machines):
        print("\n".join(output.wrapped(f"  {text}")))
