"""Logs made by hand, of a run that went well unless told otherwise: ``a_log(...)`` returns the entries of one node."""

import json

import numpy as np

from workers.trainer import protocol

NODE = "node-1"
STEP_S = 0.4
BATCH = 4


def a_job(ranks=1, device=None, **changes):
    device = device or {"id": "cpu:0-1", "kind": "cpu", "name": "a cpu", "cores": [0, 1], "memory_bytes": 2**33}
    job = {
        "protocol": protocol.PROTOCOL_VERSION,
        "attempt_id": "attempt-1",
        "run_id": "run-1",
        "plan": {"strategy": "single" if ranks == 1 else "gang", "max_steps": 1000, "timeout_s": 60},
        "model": {"name": "a model", "work_unit": "images", "work_unit_definition": "of 96 pixels", "loss": "falling"},
        "dataset": None,
        "interpreter": {"name": "system", "definition": "abc", "python": "/usr/bin/python", "environment": {}},
        "processes": [
            {
                "name": f"worker{r}",
                "role": "worker",
                "node": NODE,
                "ranks": [r],
                "local_ranks": [r],
                "devices": [device],
            }
            for r in range(ranks)
        ],
        "world_size": ranks,
        "control": {"host": "127.0.0.1", "port": 1},
        "stopping": {},
        "interval_s": 0.0,
        "sample_s": 0.5,
    }
    return {**job, **changes}


def durations(n=120, deviation=0.02, seed=1):
    return STEP_S * (1 + deviation * np.random.default_rng(seed).standard_normal(n))


def a_log(timed=None, ranks=1, job=None, losses=None, readings=None, failure=None, weights=None, unit="images"):
    """``timed``: durations of the timed intervals, of each rank the same; ``readings``: values of each reading."""
    timed = durations() if timed is None else timed
    losses = list(np.linspace(7.0, 5.0, len(timed) + 1)) if losses is None else losses
    clock = [100.0]
    entries = []

    def add(kind, rank=None, **data):
        entries.append({"t": clock[0], "wall": 1e9 + clock[0], "kind": kind, "rank": rank, "data": data})

    inventory = {"hostname": NODE, "cores": [0, 1], "driver_version": "550", "devices": []}
    provenance = {"tbd": {"version": "0.1", "commit": "c0ffee", "dirty": False}}
    opened = {"protocol": 1, "attempt_id": "attempt-1", "run_id": "run-1", "node": NODE}
    add("log_opened", **opened, job=job or a_job(ranks), inventory=inventory, provenance=provenance)
    for rank in range(ranks):
        add("versions", rank, framework="pytorch", version="2.13.0", libraries={})
        add("joined", rank, world_size=ranks)
        add("built", rank, parameters=10, mathematics={"tf32": False}, device="cpu", build_s=0.5)
    for index, duration in enumerate([3.0, *timed]):
        clock[0] += float(duration)
        for rank in range(ranks):
            own = float(duration) * (1.0 if rank == 0 else 0.9)
            phase = "timed" if index else "warmup"
            work = {unit: BATCH}
            add("interval", rank, phase=phase, first_step=index + 1, n=1, duration_s=own, work=work, input_s=0.1 * own)
            add("loss", rank, step=index + 1, value=float(losses[index]))
        if readings is not None and duration >= 0.1:
            add("reading", window_s=float(duration), values=readings)
    for rank in range(ranks):
        add("stopped", rank, step=len(timed) + 1, reason="precise")
        add("activity", rank, active_s=0.9, elapsed_s=1.0, steps=3, method="operator-union")
        add("memory", rank, peak_bytes=2**30 + rank, method="peak resident set of the process (VmHWM)")
        digest = weights[rank] if weights else "same"
        add("finished", rank, steps=len(timed) + 1, weights_sha256=digest)
    return closed(entries, failure)


def closed(entries, failure=None):
    """Number the entries, and end them with ``log_closed``."""
    last = entries[-1]
    end = {"entries": len(entries) + 1, "failure": failure}
    return numbered([*entries, {**last, "kind": "log_closed", "rank": None, "data": end}])


def numbered(entries):
    return [{**protocol_safe(entry), "seq": number, "source": "agent"} for number, entry in enumerate(entries, start=1)]


def protocol_safe(entry):
    """As it comes out of the database: non-finite floats are strings."""
    return json.loads(protocol.to_json(entry))


def quiet(**more):
    """Readings of a host with two cores, 80 % busy with the attempt; ``more`` replaces (metric, subject) by name."""
    values = {
        ("core_active_s", "core:0"): 0.32,
        ("core_active_s", "core:1"): 0.32,
        ("cpu_s", "attempt"): 0.62,
        ("cpu_s", "own"): 0.01,
        ("stolen_s", "host"): 0.0,
        ("swap_in_bytes", "host"): 0,
        ("memory_bytes", "attempt"): 5e8,
        **more.get("values", {}),
    }
    return [[metric, subject, value] for (metric, subject), value in values.items()]
