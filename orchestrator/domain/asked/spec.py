"""The experiment spec: one type for the REST body, the YAML file and the stored JSON.

Fields that are axes take one value or a list; each list is an axis of the sweep. What a field means is decided by
``orchestrator.domain.expansion.sweep``; a field whose meaning is not built yet is refused there, never ignored.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from orchestrator.domain.asked.fields import AXES
from orchestrator.domain.asked.topology import Topology
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.domain.words.spelling import did_you_mean

# ``own-script`` is what a person's own script trains with, where that is no framework that it was seen to use (``tbd
# exec``), and what projects train with; as a strategy, how its ranks exchange gradients.
Framework = Literal["pytorch", "tensorflow", "mxnet", "cntk", "own-script", "sleep"]
LEAST_PRIORITY = -1000  # behind the runs of all owners
# Frameworks that somebody may look for, and why they are not there.
NOT_THERE = {
    "caffe": "Caffe-MPI is in no registry of packages, and plain Caffe in those of Debian 11 only",
}
# ``single`` (one device) and ``gang`` (the test model's) are ours; the rest are the names the frameworks use.
Strategy = Literal[
    "auto",
    "single",
    "gang",
    "ddp",
    "fsdp",
    "mirrored",
    "multi-worker-mirrored",
    "kvstore-device",
    "kvstore-dist-sync",
    "kvstore-dist-device-sync",
    "kvstore-dist-async",
    "mpi",
    "mpi-block-momentum",
    "horovod",
    "own-script",
]
Precision = Literal["fp32", "tf32", "bf16", "amp-fp16", "amp-bf16"]
Size = Literal["full", "small", "tiny"]
Scalar = str | int | float | bool
POWERS_OF_TWO = "powers-of-two"
LARGEST_THAT_FITS = "max"
MOST_REPEATS = 1000
DEFAULT_REPEATS = 6  # fresh processes: fewer than four sound ones know too little of how processes differ

NAME_PATTERN = r"[a-z0-9-]{1,100}"
_NAME = re.compile(NAME_PATTERN)


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _as_written(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values


# One value or a list of values. Held as a list, written back as a person would write it.
T = TypeVar("T")
Axis = Annotated[list[T], BeforeValidator(_as_list), PlainSerializer(_as_written), Field(min_length=1, max_length=1000)]


class StrictModel(BaseModel):
    """Unknown keys are refused, and so are numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NodeChoice(StrictModel):
    """Where an experiment may run."""

    gpu_model: Axis[Annotated[str, Field(min_length=1, max_length=200)] | None] = Field(
        default=[None], description="only GPUs whose name contains this, in capitals or not, such as H100; null: any"
    )
    names: list[str] | None = Field(default=None, description="only these nodes, by name (tbd nodes); null: any")
    devices: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="only these devices, by id, such as the UUIDs of GPUs (tbd nodes); null: any"
    )


def _topology(value: str) -> str:
    if value != POWERS_OF_TWO:
        Topology.parse(value)
    return value


TopologyText = Annotated[str, BeforeValidator(str), Field(max_length=20)]
BatchSize = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]


class ExperimentSpec(StrictModel):
    """What a person submits: a grid of cells, how often each is repeated, and within which limits."""

    name: str = Field(max_length=100, description="what people call the experiment: a-z, 0-9 and -")
    model: Axis[str] = Field(description="what to train (tbd models)")
    options: dict[str, Axis[Scalar]] = Field(
        default_factory=dict,
        max_length=50,
        description="option of the model (tbd models), switch of the framework or option of the strategy "
        "(tbd frameworks) -> value; each takes a list too. Left out: the defaults, and every switch off",
    )
    framework: Axis[Framework] = Field(
        description="what to train it with (tbd frameworks). own-script: a project, somebody's own script on the nodes"
    )
    strategy: Axis[Strategy] = Field(
        default=["auto"],
        description="how ranks exchange gradients; auto: the framework's first one that reaches the topology. "
        "own-script: as the ranks of a person's own script do it",
    )
    interpreter: Axis[str] = Field(
        default=["auto"],
        description="the environment that the framework runs in (tbd frameworks); auto: the strategy's own",
    )
    topology: Axis[TopologyText] = Field(
        default=["1x1"],
        description="MxD: M nodes with D devices each, a rank on each device. powers-of-two: 1x1, 1x2, 1x4 and so on, "
        "up to all devices that there are when it is submitted",
    )
    fabric: Axis[Literal["ethernet", "infiniband", "roce"] | None] = Field(
        default=["ethernet"],
        description="what carries gradients between nodes; on one node it means nothing. roce: RDMA over Ethernet, for "
        "NCCL between GPUs",
    )
    device: Axis[Literal["auto", "cuda", "cpu"]] = Field(
        default=["auto"],
        description="cuda: GPUs; cpu: sets of cores. auto: GPUs if any node has one when it is submitted, else cores",
    )
    precision: Axis[Precision] = Field(default=["fp32"], description="the arithmetic of the training")
    per_device_batch_size: Axis[BatchSize | Literal["max"]] | None = Field(
        default=None,
        description="samples of one step on each device. Give this or global_batch_size. max: the largest that fits, "
        "from 128 on to one part in 64, by doubling and bisection, each try in fresh processes, or the next smaller "
        "one that whole runs fit; on CPU devices within memory_limit_bytes",
    )
    global_batch_size: Axis[BatchSize] | None = Field(
        default=None,
        description="samples of one step over all devices, divided evenly: for strong scaling, where the devices share "
        "one batch",
    )
    data: Axis[str] = Field(
        default=["synthetic"],
        description="synthetic: random samples, made once. own: of projects, what their command reads. Else a dataset "
        "(tbd datasets): real files, really decoded",
    )
    data_on: Axis[Literal["auto", "host", "pinned", "device"]] = Field(
        default=["auto"],
        description="where synthetic batches lie when a step begins. host: in the host's memory; pinned: in "
        "page-locked memory, for GPUs; device: on each rank's device already, so that nothing is copied. auto: device "
        "on GPUs, host on CPU devices, where device is host",
    )
    size: Axis[Size] = Field(
        default=["full"],
        description="full: the network as published. small: every layer kept, with a reduced input. tiny: for tests. "
        "Sizes are never compared with each other",
    )
    seed: Axis[Annotated[int, Field(strict=True, ge=0, lt=2**31)]] = Field(
        default=[1], description="of initial weights and data; the first one also draws the order of the runs"
    )
    nodes: NodeChoice = Field(default=NodeChoice(), description="where it may run; left out: on every node")
    placement: Literal["any", "same-devices"] = Field(
        default="any",
        description="any: each run gets devices that are free. same-devices: all get the same ones (not built yet)",
    )
    mode: Literal["throughput", "convergence"] = Field(
        default="throughput",
        description="throughput: how fast it trains. convergence: how good it becomes on data that is kept apart, and "
        "how long it takes to the target; it needs a dataset and a budget: max_steps, max_epochs or max_measure_s",
    )
    target: Annotated[float, Field(strict=True)] | None = Field(
        default=None,
        description="the quality that convergence trains to, in the metric of the model (tbd models MODEL); null: it "
        "trains for its whole budget",
    )
    evaluate_every: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] | None = Field(
        default=None,
        description="steps from one evaluation to the next, with convergence; null: a twentieth of max_steps, or 100",
    )
    repeats: Annotated[int, Field(strict=True, ge=1, le=MOST_REPEATS)] = Field(
        default=DEFAULT_REPEATS,
        description="runs of each cell, each in fresh processes. Of fewer than 4 the interval is wide, and disturbed "
        "ones are not replaced. With precision_target or device_time_budget_s: the runs to begin with, 6 at least",
    )
    precision_target: Annotated[float, Field(strict=True, gt=0, lt=1)] | None = Field(
        default=None,
        description="repeat each cell until its 95 % interval reaches at most this share above the mean (0.01: 1 %); "
        "null: repeats says how often",
    )
    max_repeats: Annotated[int, Field(strict=True, ge=1, le=MOST_REPEATS)] = Field(
        default=10,
        description="runs of each cell at most: disturbed ones are replaced up to this many. Left out: 10, or half as "
        "many again as repeats where that is more",
    )
    warm_up_s: Literal["auto"] | Annotated[float, Field(ge=0, le=3600)] = Field(
        default="auto",
        description="seconds of untimed steps before the timed ones, so that a device has the clock that it keeps; "
        "auto: 30 on GPUs, none on CPU devices or to a target",
    )
    min_measure_s: Annotated[float, Field(gt=0, le=30 * 86400)] | None = Field(
        default=None, description="seconds of timed steps that a run has at least; null: what its interval needs"
    )
    max_measure_s: Annotated[float, Field(gt=0, le=30 * 86400)] | None = Field(
        default=None, description="seconds of timed steps that a run has at most; null: half of timeout_s"
    )
    max_steps: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] | None = Field(
        default=None, description="steps of a run at most; null: as many as its length takes"
    )
    max_epochs: Annotated[float, Field(strict=True, gt=0, le=1_000_000)] | None = Field(
        default=None,
        description="epochs of a run at most, with convergence, fractions too: each shows every sample of the dataset "
        "once. Rounded up to a whole step",
    )
    profile: list[Literal["memory", "kernels", "layers"]] = Field(
        default_factory=list,
        description="profiles that each run makes after its timed part: memory by class, the kernels that take "
        "longest, the time of each layer. Left out: none",
    )
    # A float by its default too: a plan is hashed from its JSON, where 3600 is not 3600.0.
    timeout_s: Annotated[float, Field(strict=True, gt=0, le=30 * 86400)] = Field(
        default=3600.0, description="seconds that one attempt at a run may take in all; then it is ended and has failed"
    )
    exchange_timeout_s: Annotated[float, Field(strict=True, gt=0, le=30 * 86400)] = Field(
        default=300.0,
        description="seconds that one exchange of gradients may take (PyTorch's strategies); then it hangs, and the "
        "run has failed",
    )
    deadline_s: Annotated[float, Field(strict=True, gt=0)] | None = Field(
        default=None,
        description="seconds from its submission, or extension, until everything has to be over; what is left then is "
        "cancelled. null: as the server's TBD_DEADLINE_S has it",
    )
    device_time_budget_s: Annotated[float, Field(strict=True, gt=0)] | None = Field(
        default=None,
        description="device-seconds that the experiment may use: one device for one second is 1. They are spent where "
        "intervals are widest; null: repeats decides",
    )
    memory_limit_bytes: Annotated[int, Field(strict=True, ge=2**26, le=2**50)] | None = Field(
        default=None,
        description="bytes of memory that the processes of a run may use for each CPU device, enforced on them alone: "
        "one that asks for more is out of memory; null: no limit",
    )
    exclusive: Literal["node", "device"] = Field(
        default="node",
        description="what a run has for itself: its nodes, or its devices alone. With device several runs share a "
        "node, each with cores and memory of its own; what was measured so is a series of its own",
    )
    priority: Annotated[int, Field(strict=True, ge=LEAST_PRIORITY, le=1000)] = Field(
        default=0,
        description="of an owner's runs those of a higher priority are placed first, those of equal priority in the "
        "order they came. Owners take equal turns; -1000 is behind everybody's",
    )
    labels: dict[str, str] = Field(
        default_factory=dict, max_length=50, description="key -> value, by which experiments and results can be found"
    )
    exclude: list[dict[str, Scalar | None]] = Field(
        default_factory=list,
        max_length=1000,
        description="cells to leave out. Each entry names values of axes or options: every cell that has all of them "
        "is left out",
    )

    @model_validator(mode="before")
    @classmethod
    def _let_repeats_agree(cls, data: Any) -> Any:
        """Of ``repeats`` and ``max_repeats`` the one that is not given follows the other: a default contradicts nobody.
        Where many runs are wanted, more of them are disturbed, and there must be room to replace them."""
        if not isinstance(data, Mapping):
            return data
        repeats, most = data.get("repeats"), data.get("max_repeats")
        if "max_repeats" not in data and type(repeats) is int:
            return {**data, "max_repeats": min(max(10, repeats + repeats // 2), MOST_REPEATS)}
        if "repeats" not in data and type(most) is int and 1 <= most < DEFAULT_REPEATS:
            return {**data, "repeats": most}
        return data

    @property
    def gpu_model(self) -> list[str | None]:
        """An axis like the others, though it stands in ``nodes``."""
        return self.nodes.gpu_model

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("a name is made of a-z, 0-9 and -, such as resnet50-batch-sweep")
        return name

    @field_validator("topology")
    @classmethod
    def _check_topology(cls, topologies: list[str]) -> list[str]:
        return [_topology(topology) for topology in topologies]

    def to_json(self) -> dict[str, Any]:
        """The spec as a person would write it, defaults included: what is stored and what is answered."""
        return self.model_dump(mode="json")


def parse_spec(data: Any) -> ExperimentSpec:
    """Return the spec that ``data`` (parsed JSON or YAML) holds.

    Raises:
        InvalidRequest: with a JSON pointer to each thing that is wrong.
    """
    if not isinstance(data, Mapping):
        raise InvalidRequest([Problem("", "an experiment spec is an object of fields, such as {name: …, model: …}")])
    try:
        spec = ExperimentSpec.model_validate(dict(data))
    except ValidationError as error:
        raise InvalidRequest([*problems_of(ExperimentSpec, data, error), *_batch_problems(data)]) from None
    if problems := [*_batch_problems(data), *_contradictions(spec)]:
        raise InvalidRequest(problems)
    return spec


def _batch_problems(data: Mapping[str, Any]) -> list[Problem]:
    """Told together with what else is wrong: it is what is forgotten most often."""
    given = [name for name in ("per_device_batch_size", "global_batch_size") if data.get(name) is not None]
    if len(given) == 1:
        return []
    message = "give per_device_batch_size, or global_batch_size for strong scaling: one of the two"
    return [Problem(f"/{name}", message) for name in given[1:] or ["per_device_batch_size"]]


def _contradictions(spec: ExperimentSpec) -> list[Problem]:
    found = []
    if spec.max_repeats < spec.repeats:
        message = f"max_repeats ({spec.max_repeats}) is smaller than repeats ({spec.repeats})"
        found.append(Problem("/max_repeats", message))
    if spec.min_measure_s and spec.max_measure_s and spec.max_measure_s < spec.min_measure_s:
        message = f"max_measure_s ({spec.max_measure_s:g}) is smaller than min_measure_s ({spec.min_measure_s:g})"
        found.append(Problem("/max_measure_s", message))
    devices = spec.nodes.devices or []
    if twice := sorted({one for one in devices if devices.count(one) > 1}):
        found.append(Problem("/nodes/devices", f"{', '.join(twice)} is named twice"))
    wanted = [Topology.parse(text).world_size for text in spec.topology if text != POWERS_OF_TWO]
    if devices and wanted and max(wanted) > len(set(devices)):
        message = f"topology asks for {max(wanted)} devices, and {len(set(devices))} are named"
        found.append(Problem("/nodes/devices", message))
    for axis in AXES:
        values = getattr(spec, axis)
        if values is not None and len({repr(value) for value in values}) < len(values):
            where = f"/nodes/{axis}" if axis == "gpu_model" else f"/{axis}"
            found.append(Problem(where, f"{axis} names a value twice"))
    return found


def problems_of(kind: type[BaseModel], data: Mapping[str, Any], error: ValidationError) -> list[Problem]:
    """What pydantic found wrong with ``data``, which should be a ``kind``, with JSON pointers into it."""
    problems: dict[str, str] = {}
    for item in error.errors(include_url=False):
        pointer = _pointer(data, item["loc"], missing=item["type"] == "missing")
        message = _message(kind, item)
        problems[pointer] = f"{problems[pointer]}, or: {message}" if pointer in problems else message
    return [Problem(pointer, message) for pointer, message in problems.items()]


def _message(kind: type[BaseModel], item: ErrorDetails) -> str:
    """What is wrong in words, with the word that was probably meant."""
    message, wrong = item["msg"].removeprefix("Value error, "), item["input"]
    if item["type"] == "extra_forbidden":
        name = str(item["loc"][-1])
        return f"unknown key {name!r}" + did_you_mean(name, _fields_at(kind, item["loc"][:-1]))
    if item["type"] == "literal_error" and isinstance(wrong, str):
        if item["loc"][0] == "framework" and wrong in NOT_THERE:
            return f"{message}; there is no {wrong}: {NOT_THERE[wrong]}"
        return message + did_you_mean(wrong, re.findall(r"'([^']*)'", item["ctx"]["expected"]))
    return message


def _fields_at(kind: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The names of the fields of the part of a ``kind`` at ``location``."""
    for part in location:
        field = kind.model_fields.get(str(part))
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            return []
        kind = field.annotation
    return list(kind.model_fields)


def _pointer(data: Any, location: tuple[int | str, ...], missing: bool) -> str:
    """The JSON pointer (RFC 6901) of the part of ``data`` that pydantic means. pydantic also names the branches of a
    union and the lists that we made of single values; what ``data`` does not have is left out."""
    pointer = ""
    for part in location:
        if isinstance(data, Mapping) and isinstance(part, str):
            if part not in data and not missing:
                break
            pointer += "/" + part.replace("~", "~0").replace("/", "~1")
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            pointer += f"/{part}"
            data = data[part]
    return pointer
