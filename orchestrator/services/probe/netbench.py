"""The request for a netbench, and the experiment that carries it out: one like any other, of ``netbench``."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from orchestrator.domain.asked.catalog import parse_topology
from orchestrator.domain.asked.spec import Topology
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.services.probe import microbenchmark

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
# Beside the measurements: start of the processes and rendezvous.
START_S = 600.0


class NetbenchRequest(microbenchmark.MicrobenchmarkRequest):
    """What is to be measured, where."""

    topology: Topology = Field(
        default="1x2", description="MxD: M nodes with D devices each, a rank on each device; two ranks or more"
    )
    fabric: Literal["ethernet", "infiniband", "roce"] = Field(
        default="ethernet", description="what carries messages between nodes; on one node it means nothing"
    )
    library: Literal["auto", "gloo", "nccl", "mpi"] = Field(
        default="auto",
        description="auto: what PyTorch trains with on that device. nccl goes between GPUs, gloo and mpi between cores",
    )
    device: Literal["auto", "cuda", "cpu"] = Field(default="auto", description=microbenchmark.DEVICE)
    max_bytes: Annotated[int, Field(strict=True, ge=4, le=2**30)] = Field(
        default=2**28, description="size of the largest message; they are the powers of two from 4 bytes"
    )
    budget_s: Annotated[float, Field(strict=True, ge=1, le=86400)] = Field(
        default=300.0,
        description="seconds that the measurements of a run may take. Where they are short, first repetitions and then "
        "the largest messages are left out",
    )


def spec_of(body: Any) -> dict[str, Any]:
    """The spec of the experiment that carries out the netbench ``body`` describes.

    Raises:
        InvalidRequest: with a JSON pointer to each thing that is wrong.
    """
    described = "a netbench is an object of fields, such as {topology: 2x1}"
    asked = microbenchmark.parse(NetbenchRequest, body, described)
    _check(asked)
    return _spec(asked)


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
    return asked.spec() | {
        "name": f"netbench-{asked.library}-{asked.topology}",
        "model": MODEL,
        "options": {"max_bytes": asked.max_bytes, "budget_s": asked.budget_s},
        "framework": library.framework,
        "strategy": library.strategy,
        "topology": asked.topology,
        "fabric": asked.fabric,
        "device": library.device if asked.device == "auto" else asked.device,
        "timeout_s": asked.budget_s + START_S,
    }
