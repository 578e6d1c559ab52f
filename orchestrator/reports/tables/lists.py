"""Lists as tables: experiments, runs, nodes, calibrations, schedules and their times, plans that would run."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.domain.expansion.bisection import most_left
from orchestrator.domain.words.untrusted import visible
from orchestrator.reports.facts_of import Paint, grade_text
from orchestrator.reports.numbers import NOTHING, duration, memory, percent, plain, short_time, with_interval, zoned
from orchestrator.reports.tables.results_table import Table

Json = Mapping[str, Any]


def experiments_table(items: Sequence[Json], paint: Paint = str) -> Table:
    """One line per experiment."""
    rows = [
        [
            item["id"],
            item["name"],
            paint("paused" if item["paused"] else item["state"]),
            ", ".join(f"{count} {state}" for state, count in item["run_counts"].items() if count),
            short_time(item["created_at"]),
        ]
        for item in items
    ]
    return Table("", ["experiment", "name", "state", "runs", "submitted (UTC)"], rows, [])


def runs_table(items: Sequence[Json]) -> Table:
    """One line per run. A rate's interval is that within the run."""
    rows = [
        [
            item["id"],
            item["plan"]["model"],
            item["plan"]["framework"],
            str(item["plan"]["per_device_batch_size"]),
            item["plan"]["topology"],
            item["state"],
            grade_text(item["validity"]).partition(":")[0],
            f"{with_interval(item['throughput'])} {item['throughput']['unit']}" if item["throughput"] else NOTHING,
            plain(item["throughput"]["n"], 3) if item["throughput"] else NOTHING,
            short_time(item["created_at"]),
            item["reason"] or "",
        ]
        for item in items
    ]
    heads = ["run", "model", "framework", "batch", "topology", "state", "grade", "rate (95 % CI within the run)"]
    return Table("", [*heads, "n", "submitted (UTC)", "why"], rows, [])


def nodes_table(items: Sequence[Json]) -> Table:
    """One line per node; below it why one offers less than it has."""
    rows = [
        [
            node["name"],
            node["state"],
            str(len(node["inventory"].get("cores") or ())),
            memory(node["inventory"].get("memory_bytes")),
            ", ".join(_devices(node)),
        ]
        for node in items
    ]
    return Table("", ["node", "state", "cores", "memory", "devices"], rows, [n for one in items for n in _notes(one)])


def _numbers(node: Json) -> dict[str, str]:
    """GPU -> its driver's number."""
    return {gpu["id"]: gpu["number"] for gpu in node["inventory"].get("gpus") or ()}


def _devices(node: Json) -> list[str]:
    """CPU devices by id; GPUs that have numbers by these, those of a model together: their ids are long."""
    numbers, told = _numbers(node), []
    models: dict[str, list[str]] = {}
    for device in node["devices"]:
        if device["id"] in numbers:
            models.setdefault(device["name"], []).append(numbers[device["id"]])
        else:
            told.append(f"{device['id']} ({device['name']})")
    return [*told, *(f"GPU {', '.join(gpus)} ({name})" for name, gpus in models.items())]


def _notes(node: Json) -> list[str]:
    inventory, told = node["inventory"], [node["reason"]] if node.get("reason") else []
    withheld, numbers = inventory.get("gpus_withheld") or {}, _numbers(node)
    reasons = [("withheld", device, why.partition(": ")[2] or why) for device, why in withheld.items()]
    for device, health in node["health"].items():
        if device not in withheld:
            reasons.append((health["state"], device, "; ".join(health["reasons"])))
    alike: dict[tuple[str, str], list[str]] = {}
    for state, device, why in reasons:
        alike.setdefault((state, why), []).append(numbers.get(device, device.removeprefix("GPU ")))
    told += [f"{state}: GPU {', '.join(gpus)}: {why}" for (state, why), gpus in alike.items()]
    if (inventory.get("unavailable") or {}).get("gpus") and inventory.get("driver_version"):
        told.append(inventory["unavailable"]["gpus"])
    return [f"{node['name']}: {text}" for text in told]


def calibrations_table(items: Sequence[Json]) -> Table:
    """What devices did at best, the newest first."""
    rows = [
        [
            short_time(item["created_at"]),
            item["node"],
            item["device_name"],
            item["arithmetic"],
            f"{plain(item['flops_per_s'] / 1e9, 4)} GFLOP/s",
            NOTHING if item["change_ratio"] is None else f"{100 * item['change_ratio']:+.1f} %",
            "" if item["valid"] else "not valid",
            item["run_id"],
        ]
        for item in items
    ]
    heads = ["when (UTC)", "node", "device", "arithmetic", "at best", "against the one before", "note", "run"]
    return Table("", heads, rows, [])


def schedules_table(items: Sequence[Json], paint: Paint = str) -> Table:
    """One line per schedule: what became of its last time, and its next one."""
    rows = []
    for one in items:
        last = one["last_fire"]
        became = f"{short_time(last['fire_at'])} {paint(last['state'])}" if last else NOTHING
        following = "paused" if one["paused"] else short_time(next(iter(one["upcoming"]), None))
        rows.append([one["name"], one["owner"], one["cron"], one["timezone"], became, following])
    return Table("", ["schedule", "owner", "cron", "zone", "last time (UTC)", "next time (UTC)"], rows, [])


def fires_table(schedule: Json, fires: Sequence[Json], paint: Paint = str) -> Table:
    """What became of the times of a schedule."""
    rows = []
    for one in fires:
        many = f" ({one['n_times']} times)" if one["n_times"] > 1 else ""
        by_hand = " (run now)" if one["trigger"] == "manual" else ""
        what = one["reason"] or (f"{one['experiment_id']}  {one['experiment_state'] or 'removed'}")
        rows.append([zoned_text(one["fire_at"], schedule) + many + by_hand, paint(one["state"]), what])
    return Table("", ["time", "became", "experiment, or why not"], rows, [])


def zoned_text(time: str, schedule: Json) -> str:
    """A time as the schedule's zone shows it, with its distance from UTC."""
    return f"{zoned(time, schedule['timezone']):%Y-%m-%d %H:%M:%S %z}"


def preview_table(preview: Json) -> Table:
    """What an experiment would run, and where; below it what it leaves out, and how long it would take."""
    rows = []
    for number, one in enumerate(preview["plans"], start=1):
        plan = one["plan"]
        where = ", ".join(one["nodes"]) if one["nodes"] else f"would wait: {one['waiting']}"
        cell = [plan[name] for name in ("model", "framework", "strategy")]
        batch = str(plan["per_device_batch_size"])
        rows.append([str(number), *cell, batch, plan["topology"], plan["device"], str(plan["repetition"]), where])
    headers = ["#", "model", "framework", "strategy", "batch", "topology", "device", "rep", "where"]
    return Table("", headers, rows, _of_preview(preview))


def _of_preview(preview: Json) -> list[str]:
    told = []
    for one in preview["left_out"]:
        named = ", ".join(str(one["cell"][axis]) for axis in ("model", "framework", "topology"))
        told.append(f"left out: {named}: {one['reason']}")
    if searches := sum(one["plan"]["search"] for one in preview["plans"]):
        told.append(f"{searches} of them begin a search for the largest batch: at most {most_left({})} tries each")
    hours = plain(preview["device_time_limit_s"] / 3600, 3)
    told.append(f"{preview['n_runs']} runs; at most {hours} device-hours (timeout_s)")
    expected, width = preview["expected_duration_s"], preview["expected_half_width_ratio"]
    told.append(f"expected time: {duration(expected) if expected is not None else preview['expected_duration_reason']}")
    why = preview["expected_half_width_reason"]
    told.append(f"expected half-width of the 95 % intervals: {percent(width) if width is not None else why}")
    return told


def webhooks_table(items: Sequence[Json]) -> Table:
    """One line per webhook; of the newest try what it came to, and since when tries fail."""
    rows = [
        [
            item["id"],
            visible(item["url"]),
            f"{short_time(item['last_at'])}: {item['last_answer']}" if item["last_at"] else NOTHING,
            short_time(item["failing_since"]) if item["failing_since"] else NOTHING,
            *(str(item[name]) for name in ("n_waiting", "n_delivered", "n_given_up")),
        ]
        for item in items
    ]
    heads = ["webhook", "URL", "last try (UTC)", "fails since", "wait", "taken", "given up"]
    return Table("", heads, rows, [] if rows else ["there are no webhooks: nobody is told of alerts"])
