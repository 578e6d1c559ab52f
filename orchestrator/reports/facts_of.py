"""What there is to say of an experiment or a run before its numbers: pairs of a word and a text, and small tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.domain.runs.device_time import DeviceTime, Held, together
from orchestrator.reports.numbers import NOTHING, duration, percent, plain, quantity_text, seconds_of, short_time
from orchestrator.reports.tables.results_table import Table, axis_text

Json = Mapping[str, Any]
Pairs = list[tuple[str, str]]
Paint = Callable[[str], str]  # the name of a state or a grade -> the same in its colour


def experiment_facts(experiment: Json, runs: Sequence[Json], paint: Paint = str) -> Pairs:
    """An experiment and what became of it; ``runs``: REST's answer, for where their time went."""
    counts = ", ".join(f"{count} {name}" for name, count in experiment["run_counts"].items() if count)
    return _told(
        ("experiment", f"{experiment['id']}  {experiment['name']}"),
        ("state", paint(experiment["state"]) + _what_was_asked(experiment)),
        ("runs", counts),
        ("submitted", f"{short_time(experiment['created_at'])} UTC{_took(experiment, 'created_at')}"),
        ("deadline", f"{short_time(experiment['deadline_at'])} UTC" if experiment["deadline_at"] else ""),
        ("time", time_line(together(map(_held, filter(lambda run: run["device_time"], runs))))),
        ("labels", axis_text(experiment["spec"]["labels"])),
    )


def run_facts(run: Json, paint: Paint = str) -> Pairs:
    """A run: its plan, its state and why, how long it took, its grade."""
    plan = run["plan"]
    cell = f"{plan['model']} {plan['framework']} ({plan['strategy']}, {plan['interpreter']}) {plan['topology']}"
    more = f"batch {plan['per_device_batch_size']}, {plan['size']}, {plan['data']}, {plan['precision']}"
    return _told(
        ("run", f"{run['id']}  of {run['experiment_id']}"),
        ("plan", f"{cell}, {more}, {plan['device']}, repetition {plan['repetition']}"),
        ("options", axis_text(plan["options"])),
        ("state", paint(run["state"]) + (" (to be cancelled)" if _is_ending(run) else "")),
        ("why", run["reason"] or ""),
        *_outlook_facts(run.get("outlook")),
        ("took", _took(run, "started_at").strip(" ()")),
        ("time", time_line(_held(run).time) if run["device_time"] else ""),
        ("grade", grade_text(run["validity"], paint)),
        ("findings", "; ".join((run["validity"] or {}).get("notes") or [])),
    )


_EVIDENCE = {"earlier_runs": "as long as earlier runs took", "timeout_s": "their time limit"}


def _outlook_facts(outlook: Json | None) -> Pairs:
    """What a queued run waits for."""
    if outlook is None:
        return []
    count = f"{'at least ' if outlook['at_least'] else ''}{outlook['before']} run(s)"
    turn = f"{count} before it by turns, first {outlook['first']} of {outlook['first_owner']}"
    if not outlook["starts_at"]:
        return [
            ("queue", turn if outlook["before"] else "it is the first"),
            ("starts", "not known: nothing is kept for it yet"),
        ]
    awaited = ", ".join(outlook["awaited"])
    by = f" by {short_time(outlook['starts_at'])} UTC, if {awaited} last {_EVIDENCE[outlook['evidence']]} at most"
    return [
        ("queue", turn if outlook["before"] else "it is the first"),
        ("kept for it", "; ".join(f"{one['node']}: {len(one['devices'])} device(s)" for one in outlook["kept"])),
        ("starts", by.strip() if awaited else "now"),
    ]


def _told(*pairs: tuple[str, str]) -> Pairs:
    return [pair for pair in pairs if pair[1] not in ("", NOTHING)]


def grade_text(validity: Json | None, paint: Paint = str) -> str:
    """The grade of a run that was judged, with its reasons."""
    if validity is None:
        return ""
    reasons = "; ".join(reason["text"] for reason in validity["reasons"])
    return paint(validity["grade"]) + (f": {reasons}" if validity["grade"] != "sound" else "")


def attempt_text(attempt: Json) -> str:
    """Where an attempt ran, how it failed, and what is left of its logs."""
    places = "; ".join(
        f"{share['node']}: {', '.join(device['id'] for device in share['devices'])}" for share in attempt["placement"]
    )
    lived = f", still lived at {short_time(attempt['alive_at'])} UTC" if attempt["alive_at"] else ""
    thinned = f", its readings removed on {attempt['thinned_at'][:10]}" if attempt["thinned_at"] else ""
    return places + (f", {attempt['failure']['kind']}" if attempt["failure"] else "") + lived + thinned


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


def _what_was_asked(experiment: Json) -> str:
    if _is_ending(experiment):
        return " (to be cancelled)"
    return " (paused)" if experiment["paused"] else ""


def _is_ending(thing: Json) -> bool:
    return bool(thing["cancel_requested"]) and thing["ended_at"] is None


def _took(thing: Json, start: str) -> str:
    if not thing[start] or not thing["ended_at"]:
        return ""
    return f" ({duration(seconds_of(thing['ended_at']) - seconds_of(thing[start]))})"


def remarkable_table(runs: Sequence[Json], paint: Paint = str) -> Table:
    """The runs of an experiment that are not simply completed, oldest first, and why; ``runs`` newest first."""
    rows = [
        [run["id"], _cell_of(run["plan"]), paint(run["state"]), run["reason"] or ""]
        for run in reversed(runs)
        if run["reason"] or run["state"] in ("placing", "running")
    ]
    return Table("", ["run", "cell", "state", "why not sound, or why it waits"], rows, [])


def _cell_of(plan: Json) -> str:
    return f"{plan['framework']} {plan['per_device_batch_size']} {plan['topology']} #{plan['repetition']}"


def measurements_table(measurements: Sequence[Json]) -> Table:
    """What was measured of a run, each with its interval."""
    rows = [
        [_name(one), quantity_text(one["metric"], one), _interval(one), one["reason"] or ""] for one in measurements
    ]
    return Table("", ["metric", "value", "95 % interval within the run", "why there is none"], rows, [])


def methods_table(measurements: Sequence[Json]) -> Table:
    """What was measured of a run, and how it was made."""
    rows = [[_name(one), quantity_text(one["metric"], one), one["reason"] or one["method"]] for one in measurements]
    versions = sorted({str(one["code_version"]) for one in measurements})
    note = f"Computed by {', '.join(versions)}; what today's code would say: tbd analyse"
    return Table("", ["metric", "value", "method, or why there is none"], rows, [note] if versions else [])


def _name(measurement: Json) -> str:
    return measurement["metric"] + (f" [{measurement['subject']}]" if measurement["subject"] else "")


def _interval(measurement: Json) -> str:
    low, high = measurement["ci_low"], measurement["ci_high"]
    if low is None or high is None:
        return ""
    ends = (quantity_text(measurement["metric"], {**measurement, "value": end}) for end in (low, high))
    return " to ".join(ends)


def summary_facts(summary: Json) -> Pairs:
    """What else the log of a run says."""
    told_elsewhere = ("convergence", "device_time", "phase_ends")
    others = ((name, value) for name, value in summary.items() if name not in told_elsewhere)
    return [(str(name).replace("_", " "), _words(value)) for name, value in others if not isinstance(value, list)]


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        given = {name: item for name, item in value.items() if item is not None}
        return "; ".join(f"{name.replace('_', ' ')} {_words(item)}" for name, item in given.items())
    return plain(value) if isinstance(value, float) else str(value)


def curve_table(summary: Json) -> Table | None:
    """The quality over the time of a training to convergence; None for others."""
    told = summary.get("convergence") or {}
    if not told.get("curve"):
        return None
    wanted = "" if told["target"] is None else f", the target is {told['target']:g}"
    title = f"{told['metric']} on samples that are kept apart ({told['better']} is better{wanted})"
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
    notes = []
    if budget := told.get("epochs"):
        steps = f"the budget of {budget['max_epochs']:g} was {budget['max_steps']} steps"
        notes.append(f"an epoch has {budget['samples']} samples: {steps}")
    if resumed := told.get("resumed"):
        lost = f"{duration(resumed['lost_s'])} after that checkpoint are in no time"
        notes.append(f"resumed at step {resumed['step']}, from a checkpoint of attempt {resumed['attempt_id']}; {lost}")
    return Table(title, headers, rows, notes)
