"""The job of one run of a person's own script: what is known of it before it trains, and what its ranks say then.

A plan has fields that a script has no say in: a precision, a size, a batch of its own. They stand at their defaults,
and no table shows them. The workload is its name, its words, its unit of work and its devices.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from types import SimpleNamespace
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from workers.node import inventory, prepare
from workers.trainer import host, protocol

OWN = protocol.OWN_SCRIPT
COMMAND = "command"  # the process that the person's command is; ranks are started by it

# Judgements. Timed seconds of a run where nothing is said, and intervals at least; the least of an interval: shorter
# ones would cost a script more than they tell; the period of telemetry.
SECONDS = 20.0
LEAST_INTERVALS = 20
INTERVAL_S = 0.2
SAMPLE_S = 1.0

PROFILES = ("kernels", "memory")


class Asked(NamedTuple):
    """What a person asks of each run. ``work``: of one step of one rank, in ``unit``; None: as the script shows it.
    ``profile``: of ``PROFILES``."""

    seconds: float | None
    steps: int | None
    work: float | None
    unit: str | None
    timeout_s: float
    profile: Sequence[str] = ()


def job_of(
    asked: Asked,
    options: Mapping[str, Any],
    repetition: int,
    python: str,
    script: Mapping[str, Any],
    node: str,
    before: Mapping[str, Any] | None = None,
    host: str = "127.0.0.1",
    number: int = 0,
) -> dict[str, Any]:
    """Return a job with one rank; ``joined`` makes it that of the ranks that appear.

    Args:
        options: those of the plan, which tell cells apart.
        python: what carries the script out.
        script: what is to be known of its code: see ``workers.node.own.repository``.
        before: the plan of an earlier run of the cell: one that comes to no rank is of the same cell.
        host: the address of this node at which the others reach it, of several.
        number: which of them it is.
    """
    length: dict[str, Any] = {"intervals": LEAST_INTERVALS, "seconds": SECONDS, "max_duration_s": asked.timeout_s / 2}
    if asked.seconds is not None:
        length = {"intervals": None, "seconds": 0.0, "max_duration_s": asked.seconds}
    if asked.steps is not None:
        length = {"intervals": None, "seconds": 0.0, "max_duration_s": None}
    plan: dict[str, Any] = {
        "model": OWN,
        "options": {**options, "unit": asked.unit or "steps"},
        "framework": OWN,
        "strategy": "single",
        "interpreter": OWN,
        "topology": "1x1",
        "fabric": None,
        "device": "cpu",
        "precision": "fp32",
        "per_device_batch_size": 1,
        "global_batch_size": 1,
        "data": protocol.OWN_DATA,
        "size": "full",
        "seed": 1,
        "mode": "throughput",
        "max_steps": asked.steps,
        "max_measure_s": asked.seconds,
        "timeout_s": float(asked.timeout_s),
        "repetition": repetition,
        "profile": list(asked.profile),
    }
    if before is not None:
        shown = ("framework", "strategy", "topology", "device", "global_batch_size", "options")
        plan.update({name: before[name] for name in shown})
    identity = secrets.token_hex(10)
    command = _command(node, f"{COMMAND}{number or ''}")
    return {
        "protocol": protocol.PROTOCOL_VERSION,
        "attempt_id": f"att_{identity}",
        "run_id": f"run_{identity}",
        "token": secrets.token_hex(16),
        "plan": plan,
        "model": {"name": OWN, "work_unit": asked.unit or "steps", "loss": "noted"},
        "dataset": None,
        "interpreter": {"name": OWN, "definition": None, "python": python, "environment": {}},
        "strategy": {"synchronous": False},
        "script": dict(script),
        "processes": [command, _worker(0, 0, command, None)],
        "world_size": 1,
        "control": {"host": host, "port": None},
        "stopping": {**length, "max_steps": None, "remembered_cut": None, "why": "as it was asked for"},
        "interval_s": INTERVAL_S,
        "sample_s": SAMPLE_S,
    }


class Share(NamedTuple):
    """What one node has of the training: its name and its command's, where it would listen for the others if it has
    rank 0, its ranks with a device each (None: not known), and what those that have begun say in ``started``."""

    node: str
    command: str
    host: str
    port: int
    ranks: Sequence[int]
    devices: Sequence[Mapping[str, Any] | None]
    told: Sequence[Mapping[str, Any]]


def joined(job: Mapping[str, Any], shares: Sequence[Share]) -> Any:
    """Return what of ``job`` is otherwise now that the ranks of ``shares``, one for each node, have said who they are:
    the same on every node."""
    ordered = sorted(shares, key=lambda one: min(one.ranks))
    leads = ordered[0]
    first = leads.told[0]
    size = int(first["world_size"])
    found = {
        **counted(job, first),
        "world_size": size,
        "processes": [one for share in ordered for one in _processes(share)],
        "control": {"host": leads.host, "port": leads.port},
        "plan": {
            **job["plan"],
            "options": {**job["plan"]["options"], "unit": first["unit"]},
            "framework": first.get("framework") or OWN,
            "strategy": "single" if size == 1 else OWN,
            "topology": f"{len(ordered)}x{size // len(ordered)}",
            "device": first["device"],
            "global_batch_size": size,
        },
    }
    if len(ordered) > 1:
        found["nodes"] = [protocol.local_node(one.node) | {"address": one.host, "interface": None} for one in ordered]
    return found


def counted(job: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of ``job`` the ``first`` rank says by its ``started``: what is counted, and whether ranks wait for
    each other."""
    names = {"samples": "as its loader gave them", "tokens": "the entries of input_ids that its loader gave"}
    definition = names.get(first["unit"], "as the script, or the person who ran it, counts them")
    return {
        "model": {**job["model"], "work_unit": first["unit"], "work_unit_definition": definition},
        "strategy": {**job["strategy"], "synchronous": bool(first.get("synchronous"))},
    }


def printable(text: str) -> str:
    """Return ``text`` as a log may say it: what would command a screen, or is no text, is a blank there."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _processes(share: Share) -> list[dict[str, Any]]:
    command = _command(share.node, share.command)
    ranks = zip(share.ranks, share.devices, strict=True)
    return [command, *(_worker(rank, local, command, one) for local, (rank, one) in enumerate(ranks))]


def _command(node: str, name: str) -> dict[str, Any]:
    return {"name": name, "role": "launcher", "node": node, "ranks": [], "local_ranks": [], "devices": []}


def _worker(rank: int, local_rank: int, command: Mapping[str, Any], device: Mapping[str, Any] | None) -> dict[str, Any]:
    devices = [] if device is None else [dict(device)]
    own = {"ranks": [rank], "local_ranks": [local_rank], "devices": devices, "started_by": command["name"]}
    return {"name": f"worker{rank}", "role": "worker", "node": command["node"], **own}


def devices_of(
    told: Sequence[Mapping[str, Any]], count: int, devices: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any] | None]:
    """Return a device for each of ``count`` ranks of this node: the GPU that it says it uses, else its share of the
    cores.

    Args:
        devices: those that this node offers.
    """
    gpus = [_plain(one) for one in devices if one["kind"] == "cuda"]
    if told[0]["device"] == "cuda":
        by_id = {one["id"]: one for one in gpus}
        used = [by_id.get(str(one.get("gpu"))) for one in told]
        return [used[number] if number < len(used) and used[number] else _nth(gpus, number) for number in range(count)]
    shares: list[Mapping[str, Any] | None] = [_plain(one) for one in cpu_devices(count)]
    return shares + [None] * (count - len(shares))


def _nth(gpus: Sequence[Mapping[str, Any]], rank: int) -> Mapping[str, Any] | None:
    return gpus[rank] if rank < len(gpus) else None


def _plain(device: Mapping[str, Any]) -> dict[str, Any]:
    return {name: device.get(name) for name in ("id", "kind", "name", "cores", "memory_bytes")}


def cpu_devices(count: int) -> list[dict[str, Any]]:
    """Divide all cores that this process may use among ``count`` ranks; none, where they are fewer."""
    cores = inventory.usable_cores()
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    name = inventory.cpu_model() or "cpu"
    return inventory.cpu_devices(cores, count, name, memory_bytes) if count <= len(cores) else []


@contextlib.contextmanager
def held(devices: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Hold ``devices``, and what else an agent may call the same cores: neither it nor another ``tbd exec`` trains on
    them meanwhile.

    Raises:
        TrainerError: ``setup_failed``, another process holds one; the message says which.
        SetupError: the folder of the locks cannot be used.
    """
    folder = prepare.lock_folder()
    cores = {core for one in devices for core in one.get("cores") or ()}
    wanted = {str(one["id"]) for one in devices}
    for file in folder.glob("cpu_*.lock"):
        ranges = file.stem[len("cpu_") :].replace("_", ",")
        if cores & set(_cores(ranges)):
            wanted.add(f"cpu:{ranges}")
    descriptors: list[int] = []
    try:
        for one in sorted(wanted):
            descriptors += host.lock_devices(str(folder), [SimpleNamespace(id=one)])  # type: ignore[list-item]
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _cores(ranges: str) -> Iterator[int]:
    """Yield the numbers that ``ranges`` names, as the kernel writes sets of cores; none where it is something else."""
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            yield from range(int(first), int(last or first) + 1)
