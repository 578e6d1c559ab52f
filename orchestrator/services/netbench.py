"""Start a netbench: a netbench is an experiment like any other, of the model ``netbench``."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from orchestrator.domain.catalog import parse_topology
from orchestrator.domain.errors import InvalidRequest, Problem
from orchestrator.domain.run import Experiment
from orchestrator.domain.spec import Topology
from orchestrator.services import microbenchmark
from orchestrator.services.context import Context

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
    """What is to be measured, where. ``auto`` is the library that PyTorch trains with on that device."""

    topology: Topology = "1x2"
    fabric: Literal["ethernet", "infiniband"] = "ethernet"
    library: Literal["auto", "gloo", "nccl", "mpi"] = "auto"
    device: Literal["auto", "cuda", "cpu"] = "auto"
    max_bytes: Annotated[int, Field(strict=True, ge=4, le=2**30)] = 2**28
    budget_s: Annotated[float, Field(strict=True, ge=1, le=86400)] = 300.0


def start(context: Context, body: Any, *, owner: str, idempotency_key: str | None = None) -> tuple[Experiment, bool]:
    """Store the experiment that carries out the netbench ``body`` describes; (it, whether it is new).

    Raises:
        InvalidRequest: with a JSON pointer to each thing that is wrong. Nothing was stored.
        IdempotencyMismatch: the key was used before with another body.
    """
    return microbenchmark.carry_out(context, spec_of(body), owner, idempotency_key)


def spec_of(body: Any) -> dict[str, Any]:
    """The spec of the experiment that carries out the netbench ``body`` describes.

    Raises:
        InvalidRequest: as ``start``.
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
