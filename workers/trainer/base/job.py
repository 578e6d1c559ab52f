"""A job as the processes of an attempt see it: read once from its JSON (``workers.trainer.protocol``) into types.

What stands here is what the trainer, the adapters and the models look at. The job's other keys are for the node's agent
and for the analysis of the log.
"""

import os
from typing import Any, Mapping, NamedTuple, Optional, Tuple

from workers.trainer import protocol
from workers.trainer.base.failure import TrainerError

# Judgement: at most this long for the processes of a framework to find each other, once their interpreters run.
RENDEZVOUS_TIMEOUT_S = 300.0
# Judgement: at most this long for all ranks to meet (interpreters start, frameworks are imported).
JOIN_TIMEOUT_S = 300.0


class Plan(NamedTuple):
    """What is measured. ``timeout_s`` is that of the whole attempt; ``exchange_timeout_s`` that of one exchange
    of gradients; ``repetition`` counts runs of the same cell.

    ``switches``: those of the framework's own that are on, which stand among the plan's options beside the model's.
    ``bucket_mib``: an option of the strategy, how much it exchanges at once; None: at its default.
    ``data_on``: where synthetic batches lie (``protocol.usual_place``). ``mode``: throughput, or convergence: to
    ``target``, for ``max_steps`` steps, ``max_epochs`` epochs or ``max_measure_s`` seconds of training, evaluated after
    every so many steps. ``warm_up_s``: see ``protocol.usual_warm_up_s``.
    """

    framework: str
    strategy: str
    precision: str
    per_device_batch_size: int
    size: str
    seed: int
    timeout_s: float
    max_steps: Optional[int] = None
    profile: Tuple[str, ...] = ()
    repetition: int = 0
    switches: Tuple[str, ...] = ()
    data_on: str = protocol.HOST
    mode: str = "throughput"
    target: Optional[float] = None
    evaluate_every: int = 1
    max_measure_s: Optional[float] = None
    max_epochs: Optional[float] = None
    bucket_mib: Optional[int] = None
    warm_up_s: float = 0.0
    exchange_timeout_s: float = protocol.EXCHANGE_TIMEOUT_S


class Model(NamedTuple):
    """The facts of ``model.toml`` as the plan uses them.

    ``size``: the table of ``[sizes]`` that the plan names. ``options``: the declared defaults, overlaid with what the
    plan chose. ``input`` and ``optimizer``: None where the model has a ``build`` of its own. ``measures``: what it
    measures where it does not train. ``facts``: all of the file, for a model that has more in it.
    """

    module: str
    size: Mapping[str, Any]
    options: Mapping[str, Any]
    facts: Mapping[str, Any]
    input: Optional[str] = None
    optimizer: Optional[Mapping[str, Any]] = None
    measures: Optional[str] = None


class Dataset(NamedTuple):
    """Real files: the folder that they are in, and the package of ``suites.datasets`` that reads them, if any does."""

    root: str
    loader: Optional[str]


class Device(NamedTuple):
    """``kind``: cpu or cuda. ``cores``: logical cores of the host, where the device consists of them."""

    id: str
    kind: str
    cores: Tuple[int, ...] = ()


class Process(NamedTuple):
    """A process of the attempt; ``ranks`` are those that it drives.

    One of a model's own role (``workers.trainer.base.roles``) is ``beside`` the worker of that name, for one of its
    ranks (``of_rank``), on ``cores``.
    """

    name: str
    role: str
    node: str
    ranks: Tuple[int, ...]
    devices: Tuple[Device, ...] = ()
    beside: Optional[str] = None
    of_rank: Optional[int] = None
    cores: Tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        """The first rank that it drives.

        Raises:
            ValueError: it drives none (a server, a launcher).
        """
        return min(self.ranks)

    @property
    def device_kind(self) -> str:
        """``cpu`` or ``cuda``: a process without devices computes on the CPU."""
        return self.devices[0].kind if self.devices else "cpu"


class Node(NamedTuple):
    """Where the processes of a node are reached from others, and by which fabric.

    ``adapters``: those of RDMA that carry it ("mlx5_0:1"), where there are any. ``by_ip``: whether what goes over
    ``interface`` is on that fabric; else it is there for the ranks to meet, and only RDMA is. ``net``: the network that
    NCCL is to take, where it is a plugin's.
    """

    name: str
    address: str
    interface: str
    fabric: Optional[str]
    framework_port: Optional[int]
    adapters: Tuple[str, ...] = ()
    by_ip: bool = True
    net: Optional[str] = None


class Strategy(NamedTuple):
    """What the job says of its strategy beside its name; ``workers.trainer.protocol.STRATEGY`` says what each means."""

    workers: str
    scheduler: bool
    servers: str
    launcher: str
    synchronous: bool
    replica_tolerance: float
    step_multiple: int
    threads: str


class Control(NamedTuple):
    """Where rank 0 listens for the others; without a port there are none."""

    host: str
    port: Optional[int]


class Checkpoints(NamedTuple):
    """The folder of the run's checkpoints, and whether all nodes of the job have the same one."""

    folder: str
    shared: bool


class Parity(NamedTuple):
    """The files of a computation that all frameworks must agree on (``workers.trainer.loops.parity``)."""

    case: str
    makes_case: bool
    found: str


class Job(NamedTuple):
    """A whole job.

    ``own_name``: the name of the process that reads it. ``phase``: what that one does, ``train`` or a profile.
    ``events_path``: where its events go. ``folder``: that of the attempt. ``given``: a file of weights and a batch to
    compute with, instead of its own. ``checkpoints``: None where none are written.
    """

    token: str
    plan: Plan
    model: Model
    dataset: Optional[Dataset]
    processes: Tuple[Process, ...]
    nodes: Tuple[Node, ...]
    world_size: int
    strategy: Strategy
    control: Control
    interval_s: float
    lock_dir: Optional[str] = None
    parity: Optional[Parity] = None
    own_name: Optional[str] = None
    phase: str = "train"
    events_path: Optional[str] = None
    folder: Optional[str] = None
    given: Optional[str] = None
    attempt_id: str = ""
    checkpoints: Optional[Checkpoints] = None

    @property
    def process(self) -> Process:
        """The process that reads the job.

        Raises:
            ProtocolError: none of the job's has that name.
        """
        for process in self.processes:
            if process.name == self.own_name:
                return process
        raise protocol.ProtocolError("the job has no process named %r" % self.own_name)

    @property
    def leading_ranks(self) -> Tuple[int, ...]:
        """The first rank of every process that has ranks, in order: they meet on the control channel."""
        return tuple(sorted(min(process.ranks) for process in self.processes if process.ranks))

    def ranks_on_other_nodes(self, process: Process) -> Tuple[int, ...]:
        """The first rank of every process with ranks that runs on another node than ``process``, in order."""
        far = [other for other in self.processes if other.ranks and other.node != process.node]
        return tuple(sorted(min(other.ranks) for other in far))

    def node_of(self, process: Process) -> Node:
        """The node that ``process`` belongs to; the only one, whatever it is called, where one is."""
        if len(self.nodes) == 1:
            return self.nodes[0]
        return next(node for node in self.nodes if node.name == process.node)

    @property
    def rendezvous(self) -> Tuple[str, int]:
        """(address, port) on the first node, where the framework's own processes meet.

        Raises:
            TrainerError: ``setup_failed``, the job names no port.
        """
        first = self.nodes[0]
        if first.framework_port is None:
            raise TrainerError("setup_failed", "the job names no port for the framework's own rendezvous")
        return first.address, first.framework_port


def read(path: str) -> Job:
    """Read the job in the file ``path``.

    Raises:
        ProtocolError: the file holds no job of this protocol, or one that lacks a key.
        OSError: the file cannot be read.
    """
    return job_of(protocol.read_job(path))


def job_of(data: Mapping[str, Any]) -> Job:
    """Return the job that ``data``, its JSON, describes.

    Raises:
        ProtocolError: a key is missing.
    """
    try:
        return _job_of(data)
    except KeyError as error:
        raise protocol.ProtocolError("the job lacks %s" % error)


def _job_of(data: Mapping[str, Any]) -> Job:
    dataset, parity, control = data["dataset"], data.get("parity"), data["control"]
    checkpoints = data.get("checkpoints")
    strategy = dict(protocol.STRATEGY, **(data.get("strategy") or {}))
    return Job(
        token=data["token"],
        plan=_plan_of(data["plan"], data["model"], dataset),
        model=_model_of(data["model"], data["plan"]),
        dataset=Dataset(dataset["root"], dataset.get("loader")) if dataset else None,
        processes=tuple(_process_of(process) for process in data["processes"]),
        nodes=tuple(_node_of(node) for node in protocol.nodes_of(data)),
        world_size=data["world_size"],
        strategy=Strategy(**{name: strategy[name] for name in Strategy._fields}),
        control=Control(control["host"], control.get("port")),
        interval_s=data["interval_s"],
        lock_dir=data.get("lock_dir"),
        parity=Parity(parity["case"], parity["makes_case"], parity["found"]) if parity else None,
        own_name=data.get("process"),
        attempt_id=str(data["attempt_id"]),
        checkpoints=Checkpoints(checkpoints["folder"], bool(checkpoints["shared"])) if checkpoints else None,
    )


def _plan_of(plan: Mapping[str, Any], facts: Mapping[str, Any], dataset: Optional[Mapping[str, Any]]) -> Plan:
    own = facts.get("options") or {}
    options = plan.get("options") or {}
    device, mode = plan.get("device", "cpu"), plan.get("mode", "throughput")
    usual_s = protocol.usual_warm_up_s(device, mode)
    return Plan(
        framework=plan["framework"],
        strategy=plan["strategy"],
        precision=plan["precision"],
        per_device_batch_size=plan["per_device_batch_size"],
        size=plan["size"],
        seed=plan["seed"],
        timeout_s=float(plan["timeout_s"]),
        exchange_timeout_s=float(plan.get("exchange_timeout_s", protocol.EXCHANGE_TIMEOUT_S)),
        max_steps=plan.get("max_steps"),
        profile=tuple(plan.get("profile") or ()),
        repetition=plan.get("repetition", 0),
        switches=tuple(sorted(name for name, value in options.items() if value is True and name not in own)),
        # Files are decoded in the host's memory, batch by batch.
        data_on=protocol.HOST if dataset else plan.get("data_on") or protocol.usual_place(device),
        mode=mode,
        target=plan.get("target"),
        evaluate_every=plan.get("evaluate_every") or 1,
        max_measure_s=plan.get("max_measure_s"),
        max_epochs=plan.get("max_epochs"),
        bucket_mib=options.get("bucket_mib") if "bucket_mib" not in own else None,
        warm_up_s=float(plan.get("warm_up_s", usual_s)),
    )


def _model_of(facts: Mapping[str, Any], plan: Mapping[str, Any]) -> Model:
    options = {name: option.get("default") for name, option in (facts.get("options") or {}).items()}
    options.update((name, value) for name, value in (plan.get("options") or {}).items() if name in options)
    return Model(
        module=facts["module"],
        size=facts.get("sizes", {}).get(plan["size"], {}),
        options=options,
        facts=facts,
        input=facts.get("input"),
        optimizer=facts.get("optimizer"),
        measures=facts.get("measures"),
    )


def _process_of(process: Mapping[str, Any]) -> Process:
    devices = tuple(
        Device(device["id"], device["kind"], tuple(device.get("cores") or ())) for device in process["devices"]
    )
    return Process(
        name=process["name"],
        role=process["role"],
        node=process["node"],
        ranks=tuple(process["ranks"]),
        devices=devices,
        beside=process.get("beside"),
        of_rank=process.get("of_rank"),
        cores=tuple(process.get("cores") or ()),
    )


def _node_of(node: Mapping[str, Any]) -> Node:
    port = (node.get("ports") or {}).get("framework")
    adapters = tuple(node.get("adapters") or ())
    return Node(
        node["name"],
        node["address"],
        node["interface"],
        node["fabric"],
        port,
        adapters,
        node.get("by_ip", True),
        node.get("net"),
    )


def socket_path(folder: str, worker: str) -> str:
    """Return the path of the socket in the attempt's ``folder`` at which the worker of that name meets those beside it
    (``workers.trainer.base.roles``)."""
    return os.path.join(folder, worker + ".socket")


def threads() -> int:
    """Return the number of computing threads for this process: ``OMP_NUM_THREADS``, else the cores it may run on."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else len(os.sched_getaffinity(0))
