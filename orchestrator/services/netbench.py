"""Start a netbench: a netbench is an experiment like any other, of the model ``netbench``."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from orchestrator.domain.catalog import parse_topology
from orchestrator.domain.errors import InvalidRequest, Problem
from orchestrator.domain.run import Experiment
from orchestrator.domain.spec import NodeChoice, StrictModel, Topology, problems_of
from orchestrator.services.context import Context
from orchestrator.services.submit import submit

MODEL = "netbench"


class Library(NamedTuple):
    """How a training uses it."""

    framework: str
    strategy: str
    device: str


LIBRARIES: Mapping[str, Library] = {
    "auto": Library("pytorch", "ddp", "auto"),
    "gloo": Library("pytorch", "ddp", "cpu"),
    "nccl": Library("pytorch", "ddp", "cuda"),
    "mpi": Library("cntk", "mpi", "cpu"),
}
# What a disturbed run may be tried again: a judgement.
REPLACEMENTS = 2
# Beside the measurements: start of the processes and rendezvous.
START_S = 600.0


class NetbenchRequest(StrictModel):
    """What is to be measured, where. ``auto`` is the library that PyTorch trains with on that device."""

    topology: Topology = "1x2"
    fabric: Literal["ethernet", "infiniband"] = "ethernet"
    library: Literal["auto", "gloo", "nccl", "mpi"] = "auto"
    device: Literal["auto", "cuda", "cpu"] = "auto"
    max_bytes: Annotated[int, Field(strict=True, ge=4, le=2**30)] = 2**28
    budget_s: Annotated[float, Field(ge=1, le=86400)] = 300.0
    repeats: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    nodes: NodeChoice = NodeChoice()
    labels: dict[str, str] = Field(default_factory=dict, max_length=50)


def start(context: Context, body: Any, *, owner: str, idempotency_key: str | None = None) -> tuple[Experiment, bool]:
    """Store the experiment that carries out the netbench ``body`` describes; (it, whether it is new).

    Raises:
        InvalidRequest: with a JSON pointer to each thing that is wrong. Nothing was stored.
        IdempotencyMismatch: the key was used before with another body.
    """
    asked = _parse(body)
    _check(asked)
    try:
        return submit(context, _spec(asked), owner=owner, idempotency_key=idempotency_key)
    except InvalidRequest as error:
        raise InvalidRequest([_in_our_words(problem) for problem in error.problems]) from None


def _parse(body: Any) -> NetbenchRequest:
    if not isinstance(body, Mapping):
        raise InvalidRequest([Problem("", "a netbench is an object of fields, such as {topology: 2x1}")])
    try:
        asked = NetbenchRequest.model_validate(dict(body))
    except ValidationError as error:
        raise InvalidRequest(problems_of(body, error)) from None
    return asked


def _check(asked: NetbenchRequest) -> None:
    try:
        nodes, devices = parse_topology(asked.topology)
    except ValueError as error:
        raise InvalidRequest([Problem("/topology", str(error))]) from None
    if nodes * devices < 2:
        raise InvalidRequest([Problem("/topology", f"{asked.topology} has one rank: nothing is exchanged")])
    if asked.library != "auto" and asked.device not in ("auto", LIBRARIES[asked.library].device):
        message = f"{asked.library} goes between {LIBRARIES[asked.library].device} devices, not {asked.device} devices"
        raise InvalidRequest([Problem("/library", message)])


def _spec(asked: NetbenchRequest) -> dict[str, Any]:
    """The same for the same request, whatever the cluster consists of: an idempotency key is good for it."""
    library = LIBRARIES[asked.library]
    return {
        "name": f"netbench-{asked.library}-{asked.topology}",
        "model": MODEL,
        "options": {"max_bytes": asked.max_bytes, "budget_s": asked.budget_s},
        "framework": library.framework,
        "strategy": library.strategy,
        "topology": asked.topology,
        "fabric": asked.fabric,
        "device": library.device if asked.device == "auto" else asked.device,
        "per_device_batch_size": 1,
        "nodes": asked.nodes.model_dump(),
        "repeats": asked.repeats,
        "max_repeats": min(asked.repeats + REPLACEMENTS, 1000),
        "timeout_s": asked.budget_s + START_S,
        "labels": asked.labels,
    }


def _in_our_words(problem: Problem) -> Problem:
    """What the spec calls an option is a field here, and there is no grid of which a cell could be left out."""
    return Problem(problem.pointer.replace("/options/", "/", 1), problem.message.partition(". To leave this cell")[0])
