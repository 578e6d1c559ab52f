"""The two things that cross between the orchestrator and a host: the job going out, the event log coming back.

This module owns their format and its version, and nothing else. It is imported by the orchestrator, by the node
agent and by the trainer, so it is Python 3.6 with the standard library only.

The job
    A JSON object, written by ``orchestrator.services.reconcile.job`` and read by every process of the attempt. The node
    agent completes it: ``interpreter``, ``dataset.root``, and the ports where they are null. It adds ``lock_dir``, the
    folder of the device locks, and to the copy of each process ``process``, its name. ``tbd parity`` adds ``parity``
    (see ``workers.trainer.loops.parity``).

    ============== ===================================================================================================
    protocol       ``PROTOCOL_VERSION``
    attempt_id     opaque; so is ``run_id``
    token          secret of the attempt; stands in the environment of its processes as ``TOKEN_VARIABLE``
    plan           the frozen plan: model, options, framework, strategy, interpreter, topology, fabric, device,
                   precision, per_device_batch_size, global_batch_size, data, size, seed, mode, max_steps,
                   min_measure_s, max_measure_s, profile, timeout_s, repetition; exchange_timeout_s, data_on and
                   warm_up_s where they are not the usual ones
    model          the facts of ``model.toml`` as an object, with ``module`` (``suites.models.resnet_50``)
    dataset        null for synthetic data, else the facts of ``dataset.toml`` with ``module`` and ``root`` (a folder;
                   null until the node agent has prepared it). Of one that was registered on nodes also ``registered``
                   (true), ``sha256`` (which files are meant), and ``path``, which each node's agent fills in
    interpreter    {name, definition (hash or null), python (path or null: the agent looks it up), environment {}}. What
                   a confirmation makes again stands here as well: variables {name: value, or null for one that is not
                   set}, those that an agent recorded; suite_commit, of the folder of TBD_SUITE_PATH that the model is
                   from. The agent then fills in ``suite_path``, the folders with further models
    processes      [{name, role, node, ranks [], local_ranks [], devices [device]}], device as in the inventory:
                   {id, kind: cpu|cuda, name, cores [], memory_bytes}. Those of a model's own role also have beside
                   (the name of their worker), of_rank, and cores []: see workers.trainer.base.roles
    world_size     number of ranks over all processes
    strategy       how the plan's strategy lays out its processes and what it promises of its replicas: see
                   ``STRATEGY``. A job without it has the defaults
    nodes          [{name, address, interface, fabric, ports {control, framework}}] in rank order, the first leads:
                   where processes of one node reach those of another. Ports are null where there is one node: its
                   agent picks free ones. Where RDMA carries the fabric also adapters [] and by_ip, whether IP goes over
                   it too. A job without it is for one node
    control        {host, port}: the control channel, listened on by rank 0; port null: the agent picks a free one
    stopping       {intervals, seconds, max_steps, max_duration_s, remembered_cut, why}: the length of the timed phase,
                   fixed before it begins, and its limits: see workers.node.stopping
    history        [{rates [], within, intervals}]: earlier sessions of this cell on this node, as they were known when
                   the attempt began, for the analysis of the log. A job need not have it
    interval_s     least duration of a timed interval: 0 on CPU devices (an interval is one step), 0.2 on GPUs
    sample_s       period of the telemetry sampler
    peaks          [{node, device, arithmetic, data_sheet, calibrated}] of the plan's precision, for the analysis of the
                   log: data_sheet {flops_per_s, source} or null, calibrated {flops_per_s, run_id, at} or null, as they
                   were known when the attempt began. A job need not have it
    script         of a person's own script: {words, work, unit, commit, dirty_sha256}. A record, by which nothing is
                   carried out: the command of ``tbd exec`` is no part of a job. A job need not have it
    checkpoints    {folder, shared}: where the checkpoints of the run are, and whether all nodes have the same folder.
                   The agent fills it in for a plan whose mode is convergence. A job need not have it
    ============== ===================================================================================================

    The copy that a process reads has one more key: ``process``, its own name. ``tbd parity`` makes jobs of its own,
    which no host is sent: ``workers.trainer.loops.parity`` has the keys that are theirs.

The event log
    One JSON object a line. A process appends ``{t, wall, kind, rank, data}`` to its own file; the node agent adds
    ``seq`` (1, 2, 3 … without a gap, per node and attempt) and ``source`` (the process's name, or ``agent``) and writes
    them to the one log of the node. ``t`` is CLOCK_MONOTONIC and ``wall`` CLOCK_REALTIME, both in seconds. Non-finite
    floats travel as the strings ``NaN``, ``Infinity`` and ``-Infinity``. ``EVENTS`` lists every kind with the keys
    its data must have. A log is complete when it ends with ``log_closed``.
"""

import json
import math
import os
import time
from typing import Any, Dict, List, Mapping, Optional

PROTOCOL_VERSION = 1

# Where synthetic batches lie before a step copies them to its device: in the host's memory, in page-locked memory of
# the host, or on the rank's device already.
HOST, PINNED, DEVICE = "host", "pinned", "device"

# Judgement: as long as ``calibration`` loads a device before it measures it.
WARM_UP_S = 30.0

# The model of a person's own script, which no catalogue has: tbd exec makes jobs of it. And what a script or a project
# trains with, where that is no framework that it was seen to use; its data is as much its own.
OWN_SCRIPT = "own-script"
OWN_DATA = "own"

TOKEN_VARIABLE = "TBD_ATTEMPT_TOKEN"
# Beside the token: the node that the process belongs to, where several nodes of an attempt are one machine.
NODE_VARIABLE = "TBD_ATTEMPT_NODE"
# How many threads or processes of a rank decode its batches: see workers.trainer.base.ahead.
DECODERS_VARIABLE = "TBD_DECODERS"

ROLES = ("worker", "server", "scheduler", "launcher", "actor")
# Those of which a model may have processes of its own: see workers.trainer.base.roles.
MODEL_ROLES = ("actor",)

# Why an attempt did not end well. ``orchestrator.domain.value.failure`` gives each its policy; a test holds them equal.
FAILURE_KINDS = (
    "out_of_memory",
    "diverged",
    "timed_out",
    "crashed",
    "setup_failed",
    "no_space",
    "unsupported",
    "node_lost",
    "invalid_log",
    "cancelled",
)

# Exit status of a trainer process by the failure it reported in an ``error`` event; any other status is a crash.
EXIT_STATUS = {
    "out_of_memory": 81,
    "diverged": 82,
    "timed_out": 83,
    "setup_failed": 84,
    "unsupported": 85,
    "crashed": 86,
    "no_space": 87,
}

# kind -> keys its data must have. Keys beyond these are allowed: they are additions, not another version.
EVENTS = {
    # written by the node agent
    "log_opened": ("protocol", "attempt_id", "run_id", "node", "job", "inventory", "provenance"),
    # where real data is wanted: what was prepared here, by the digests of its files
    "dataset": ("name", "files", "bytes", "sha256"),
    "process_started": ("process", "role", "pid", "start_ticks"),
    # metrics and subjects of its ``values``: READINGS
    "reading": ("window_s", "values"),
    "output": ("process", "stream", "offset", "text"),
    "stop_requested": ("reason", "detail"),
    "stopping_decided": ("reason", "steps", "detail"),
    "garbage": ("process", "text"),
    "process_exited": ("process", "exit_code", "signal", "stderr_tail"),
    "log_closed": ("entries", "failure"),
    # written by a process of the attempt
    "started": ("pid", "python"),
    "versions": ("framework", "version", "libraries"),
    # by rank 0, when all ranks have joined and again at the end, of a rank on another node: how far that node's
    # CLOCK_MONOTONIC is ahead of the own one, and by how much that may be wrong; at_t: when, on the own clock
    "clock": ("peer_rank", "offset_s", "uncertainty_s", "pings"),
    "joined": ("world_size",),
    "built": ("parameters", "mathematics", "device", "build_s"),
    # of a person's own script also ``paused_s``, seconds by phase (evaluation, checkpoint) that lie within it and are
    # no part of its duration, and ``left_out``, steps that a scaled loss left out, at least so many
    "interval": ("phase", "first_step", "n", "duration_s", "work"),
    "loss": ("step", "value"),
    # by rank 0 of a run to convergence, between intervals: what the model's metric counted (suites.quality) over all
    # samples that are kept apart, the mean loss on them, and the seconds that it took. ``trained_s``: of all intervals
    # before it; ``elapsed_s``: since the first of them began, earlier evaluations among them
    "evaluation": ("step", "metric", "sums", "samples", "loss", "cost_s", "trained_s", "elapsed_s"),
    # by rank 0 of such a run, where its budget is in epochs: the samples of one, and the steps that the budget is
    "epoch": ("samples", "max_steps"),
    # by rank 0 of such a run, before its first interval: where it goes on, and which attempt's checkpoint that is; step
    # 0 and null where it begins anew, with the ``reason``. ``damaged``: what was wrong with newer ones. ``lost_s``:
    # seconds from that checkpoint to here, which are in no ``trained_s`` and no ``elapsed_s``. The evaluations before
    # the checkpoint come again after it, as they were
    "resumed": ("step", "attempt_id", "reason", "damaged", "lost_s", "cost_s"),
    # by rank 0 after an evaluation; bytes and sha256 are null where it could not be written, and ``problem`` says why
    "checkpoint": ("step", "bytes", "sha256", "cost_s"),
    # instead of intervals, where the model's facts say ``measures = "exchange"``: messages of one size, of all ranks of
    # the process that reports it. ``duration_s`` lists the repetitions, each of ``ways`` messages one after the other
    # (2: a round trip between two ranks). With ``queued`` each is the mean of so many that a device did one after the
    # other, and were waited for together
    "exchange": (
        "operation",
        "library",
        "bytes",
        "world_size",
        "ranks",
        "busy_cores",
        "repetitions",
        "ways",
        "duration_s",
    ),
    # instead of intervals, where the model's facts say ``measures = "calibration"``: products of one shape (m, n, k) in
    # one arithmetic; each of ``duration_s`` is a repetition of ``flops`` operations
    "calibration": ("arithmetic", "shape", "library", "flops", "products", "loaded_s", "duration_s"),
    # two steps under a profiler, which each run ends with; with ``cost_s``: what that took by the loop's clock
    "activity": ("active_s", "elapsed_s", "steps", "method"),
    # after ``activity``, where the plan's ``profile`` asks for them; workers.trainer.frameworks describes them. Rows
    # of ``kernels`` are [name, calls, total_s] over all steps, of ``layers`` objects in the order of the forward pass;
    # items of ``spans`` [name's index, lane's index, start_s on CLOCK_MONOTONIC, duration_s], of ``allocations``
    # [class's index, bytes (freed: negative), step (0: the build)]. A long list comes in several events, each whole in
    # itself; the ``last`` one of ``allocations`` also has steps, peak_bytes, peak_method, outside_bytes and, where
    # the peak counts from a later step than the build, peak_from_step.
    "kernels": ("steps", "elapsed_s", "active_s", "method", "rows"),
    "spans": ("names", "lanes", "items"),
    "layers": ("steps", "elapsed_s", "method", "serialised", "breakdown", "rows", "exchanges"),
    "allocations": ("method", "classes", "items", "last"),
    # of a person's own script, after ``kernels``: multiply-adds of a step count as two operations; exchanges and
    # additions between tensors do not count
    "operations": ("steps", "flops", "method"),
    # what a profile cost: with it, a phase of the process or (``memory``) a process of its own has ended well; with
    # ``begun_t``: when it began, on CLOCK_MONOTONIC, for its findings were reported before this event
    "profiled": ("profile", "steps", "elapsed_s"),
    # by the agent, or a person's own script: a profile went wrong; what was measured before stands
    "profile_failed": ("profile", "failure"),
    # by the agent, on a GPU host with ncu, where the plan's ``profile`` asks for kernels: what hardware counted in one
    # step, [kernel's name, {ncu's metric: value or null}] of each launch in order; a long list comes in several events
    "counters": ("tool", "steps", "kernels"),
    # of the timed and profiled steps; with ``warmup_peak_bytes``: what was the peak before them, where it is told apart
    "memory": ("peak_bytes", "method"),
    "stopped": ("step", "reason"),
    "replica": ("sha256", "norm", "sketch"),
    "finished": ("steps", "weights_sha256"),
    "error": ("failure", "type", "message", "traceback"),
}

# metric of a reading -> what its value is. A reading's ``values`` are triples [metric, subject, value]; subjects are
# ``host``, ``core:N``, ``process:NAME``, ``attempt`` (all its processes), ``own`` (tbd's and Ray's own processes),
# ``neighbours`` (the processes of other attempts, where they share the node), ``device:ID``, ``interface:NAME`` and
# ``disk``. Quantities that grow (``_s``, ``_bytes`` of traffic, ``_j``) are the amount within the reading's window. A
# value that cannot be read is null.
READINGS = {
    "core_active_s": "active time of one logical core (user, nice, system, irq, softirq; not idle, iowait or steal)",
    "stolen_s": "time the hypervisor gave to others, all cores of the host",
    "cpu_s": "processor time used by the subject",
    "memory_bytes": "resident set of the subject",
    "memory_available_bytes": "memory of the host that can be had without swapping",
    "swap_in_bytes": "read back from swap by the host",
    "sent_bytes": "sent by an interface, or a port of an RDMA adapter",
    "received_bytes": "received by an interface, or a port of an RDMA adapter",
    "port_errors": "errors of a port of an RDMA adapter, of symbols, packets and links, since the last value",
    "read_bytes": "read from disks by the host",
    "written_bytes": "written to disks by the host",
    "cpu_frequency_hz": "mean current frequency of the host's cores",
    "busy_ratio": "share of time with at least one kernel resident on the device (NVML utilization.gpu)",
    "device_memory_bytes": "memory in use on the device, all processes",
    "foreign_device_processes": "number of compute processes on the device that are not of the attempt",
    "sm_active_ratio": "share of the device's multiprocessors with a warp, mean over the window (GPM)",
    "sm_occupancy_ratio": "resident warps over the most there can be, mean over the window (GPM)",
    "tensor_pipe_ratio": "share of cycles in which any tensor pipe worked, mean over the window (GPM)",
    "dram_active_ratio": "share of the device memory's bandwidth in use, mean over the window (GPM)",
    "fp32_pipe_ratio": "share of cycles in which the FP32 pipes worked, mean over the window (GPM)",
    "pcie_sent_bytes_per_s": "sent by the device over PCIe, mean over the window (GPM)",
    "pcie_received_bytes_per_s": "received by the device over PCIe, mean over the window (GPM)",
    "nvlink_sent_bytes_per_s": "sent by the device over all its NVLinks, mean over the window (GPM)",
    "nvlink_received_bytes_per_s": "received by the device over all its NVLinks, mean over the window (GPM)",
    "uncorrected_ecc_errors": "errors of the device's memory that its code could not correct, since the last value",
    "xid": "code of the last XID error that the driver reported of the device since the last value; 0: none",
    "power_w": "power drawn by the device",
    "energy_j": "energy drawn by the device",
    "temperature_c": "temperature of the device, degrees Celsius",
    "sm_clock_hz": "clock of the device's multiprocessors",
    "memory_clock_hz": "clock of the device's memory",
    "memory_temperature_c": "temperature of the device's memory, degrees Celsius",
    "throttle_reasons": "bit mask, nvmlDeviceGetCurrentClocksEventReasons; where the next four cannot be had",
    "power_capped_s": "seconds in which the limit of power held the device's clocks down",
    "software_slowed_s": "seconds in which the driver held the clocks down because of heat",
    "hardware_slowed_s": "seconds in which the device itself held the clocks down because of heat",
    "power_braked_s": "seconds in which the device held the clocks down as its power supply asked for",
    "corrected_ecc_errors": "errors of the device's memory that its code corrected, since the last value",
    "remapped_rows": "rows of the device's memory that were replaced because of uncorrectable errors, since the last",
    "pcie_replays": "packets that were sent again over PCIe, since the last value",
    "nvlink_replays": "packets that were sent again over NVLink, since the last value",
    "nvlink_recoveries": "times that an NVLink was set up anew, since the last value",
    "nvlink_crc_errors": "packets over NVLink whose checksum was wrong, since the last value",
}

PHASES = ("warmup", "timed")

# What a plan's ``profile`` may ask for. ``memory`` is made by processes of its own, after the others.
PROFILES = ("kernels", "layers", "memory")

# Classes of ``allocations``, in the words of the trainers: by role first (who owns it), then by time.
MEMORY_CLASSES = (
    "weights",
    "weight_gradients",
    "optimizer_state",
    "feature_maps",
    "workspace",
    "input",
    "other",
)

# Parts of a step in the ``breakdown`` of ``layers``, seconds per step; null with a reason where one cannot be told.
BREAKDOWN = ("input_s", "host_to_device_s", "forward_s", "backward_s", "exchange_s", "update_s")

# What ``job["strategy"]`` says beside its name, with the defaults of a strategy that does not say.
STRATEGY = {
    "workers": "per-device",  # or per-node: one process drives all devices of its node, a rank each
    "scheduler": False,  # a process of that role on the first node
    "servers": "none",  # or per-node: a process of that role on each node
    # or mpirun: a process of that role on each node, which starts the workers; or command: the model's own does
    "launcher": "none",
    "synchronous": True,  # the replicas' weights must be equal at the end
    "replica_tolerance": 0.0,  # greatest relative distance of synchronous replicas that are not bitwise equal
    "step_multiple": 1,  # intervals are a multiple of so many steps
    "threads": "per-process",  # or per-device: OMP_NUM_THREADS counts for each device that a process drives
}

_JOB_KEYS = (
    "protocol",
    "attempt_id",
    "run_id",
    "token",
    "plan",
    "model",
    "dataset",
    "interpreter",
    "processes",
    "world_size",
    "control",
    "stopping",
    "interval_s",
    "sample_s",
)

_NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class ProtocolError(ValueError):
    """A job or an event that does not follow the protocol; the message names what is wrong."""


def local_node(name: str) -> Dict[str, Any]:
    """Return what a job says of its only node, before the node's agent has picked its ports."""
    return {
        "name": name,
        "address": "127.0.0.1",
        "interface": "lo",
        "fabric": None,
        "ports": {"control": None, "framework": None},
    }


def nodes_of(job: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Return the nodes of the job in rank order, the first leads; one that says nothing of them has one node only."""
    return job.get("nodes") or [local_node(job["processes"][0]["node"])]


def node_of(job: Mapping[str, Any], process: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the entry of the node that ``process`` belongs to; the only one, whatever it is called, where one is."""
    nodes = nodes_of(job)
    if len(nodes) == 1:
        return nodes[0]
    return next(node for node in nodes if node["name"] == process["node"])


# Seconds that one exchange of gradients may take where a plan does not say: a judgement. What hangs ends then, and not
# with the whole attempt.
EXCHANGE_TIMEOUT_S = 300.0


def usual_place(device: str) -> str:
    """Return where the synthetic batches of a rank lie unless a plan says otherwise: a plan leaves it out then.

    On GPUs they lie on the device in every framework: page-locked memory, which copies while the device computes, is
    not to be had in all of them, and a copy from pageable memory would be most of what is compared.
    """
    return HOST if device == "cpu" else DEVICE


def usual_warm_up_s(device: str, mode: str = "throughput") -> float:
    """Return the seconds of untimed steps before the timed ones unless a plan says otherwise.

    A GPU's clock falls as it grows warm and as its power reaches the limit. A training to a target is no sample of
    steady state: all of its steps count.
    """
    return WARM_UP_S if device == "cuda" and mode == "throughput" else 0.0


def check_job(job: Any) -> Dict[str, Any]:
    """Return ``job`` if it follows the protocol.

    Raises:
        ProtocolError: the version is another one, or a key is missing.
    """
    if not isinstance(job, dict):
        raise ProtocolError("a job is a JSON object, this is %s" % type(job).__name__)
    if job.get("protocol") != PROTOCOL_VERSION:
        raise ProtocolError(
            "the job speaks protocol %r, this host speaks %d: install the same version of tbd on both"
            % (job.get("protocol"), PROTOCOL_VERSION)
        )
    missing = [key for key in _JOB_KEYS if key not in job]
    if missing:
        raise ProtocolError("the job lacks %s" % ", ".join(missing))
    return job


def read_job(path: str) -> Dict[str, Any]:
    """Read and check the job in the file ``path``.

    Raises:
        ProtocolError: the file holds no job of this protocol.
        OSError: the file cannot be read.
    """
    with open(path, encoding="utf-8") as file:
        try:
            job = json.load(file)
        except ValueError as error:
            raise ProtocolError("%s holds no JSON: %s" % (path, error))
    return check_job(job)


def to_json(value: Any) -> str:
    """Return ``value`` as one line of strict JSON; non-finite floats become strings."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))


def _finite(value):
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def number(value: Any) -> float:
    """Return the float that travelled as ``value``: a JSON number, or one of the three strings.

    Raises:
        ProtocolError: it is neither.
    """
    if isinstance(value, bool):
        raise ProtocolError("%r is not a number" % value)
    if isinstance(value, (int, float)):
        return float(value)
    if value in _NON_FINITE:
        return _NON_FINITE[value]
    raise ProtocolError("%r is not a number" % (value,))


def check_event(event: Any) -> Dict[str, Any]:
    """Return ``event`` (with or without ``seq`` and ``source``) if it follows the protocol.

    Raises:
        ProtocolError: it is no object, its kind is unknown, or a key is missing.
    """
    if not isinstance(event, dict):
        raise ProtocolError("an event is a JSON object, this is %s" % type(event).__name__)
    kind = event.get("kind")
    if kind not in EVENTS:
        raise ProtocolError("unknown kind of event: %r" % (kind,))
    data = event.get("data")
    if not isinstance(data, dict):
        raise ProtocolError("a %s event without data" % kind)
    missing = [key for key in EVENTS[kind] if key not in data]
    if missing:
        raise ProtocolError("a %s event lacks %s" % (kind, ", ".join(missing)))
    for clock in ("t", "wall"):
        number(event.get(clock))
    return event


def event(kind: str, data: Dict[str, Any], rank: Optional[int] = None) -> Dict[str, Any]:
    """Return a new event, stamped with both clocks.

    Raises:
        ProtocolError: ``data`` lacks a key that ``kind`` must have.
    """
    return check_event({"t": time.monotonic(), "wall": time.time(), "kind": kind, "rank": rank, "data": data})


class EventWriter(object):
    """Appends events to a process's own file, each flushed as a whole line."""

    def __init__(self, path: str, rank: Optional[int] = None) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._rank = rank
        self._rest = b""

    def emit(self, kind: str, of_rank: Optional[int] = None, **data: Any) -> None:
        """Append one event, of the process's first rank unless ``of_rank`` names another one that it drives.

        A single write of a whole line: a reader never sees two processes' lines mixed. What a full disk cuts off
        comes before the next event, so that the line is whole if there is room again.

        Raises:
            OSError: it cannot be written, or not wholly.
        """
        rank = self._rank if of_rank is None else of_rank
        rest, self._rest = self._rest, b""
        rest += (to_json(event(kind, data, rank)) + "\n").encode("utf-8")
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        finally:
            self._rest = rest

    def close(self) -> None:
        os.close(self._file)
