"""The request for a netbench, and the experiment that carries it out: one like any other, of ``netbench``."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from orchestrator.domain.asked.spec import TopologyText
from orchestrator.domain.asked.topology import Topology
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.services.probe.request import ProbeRequest


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
    "grpc": Library("tensorflow", "multi-worker-mirrored", "cpu"),
    "mirrored": Library("tensorflow", "mirrored", "cpu"),
    "kvstore-device": Library("mxnet", "kvstore-device", "cpu"),
    "kvstore-dist-sync": Library("mxnet", "kvstore-dist-sync", "cpu"),
    "kvstore-dist-device-sync": Library("mxnet", "kvstore-dist-device-sync", "cpu"),
    "horovod-pytorch": Library("pytorch", "horovod", "cpu"),
    "horovod-tensorflow": Library("tensorflow", "horovod", "cpu"),
    "horovod-mxnet": Library("mxnet", "horovod", "cpu"),
}
# Beside the measurements: start of the processes and rendezvous.
START_S = 600.0


class NetbenchRequest(ProbeRequest):
    """What is to be measured, where."""

    model: ClassVar = "netbench"
    options: ClassVar = ("max_bytes", "budget_s")
    example: ClassVar = "2x1"

    topology: TopologyText = Field(
        default="1x2", description="MxD: M nodes with D devices each, a rank on each device; two ranks or more"
    )
    fabric: Literal["ethernet", "infiniband", "roce"] = Field(
        default="ethernet", description="what carries messages between nodes; on one node it means nothing"
    )
    library: Literal[
        "auto",
        "gloo",
        "nccl",
        "mpi",
        "grpc",
        "mirrored",
        "kvstore-device",
        "kvstore-dist-sync",
        "kvstore-dist-device-sync",
        "horovod-pytorch",
        "horovod-tensorflow",
        "horovod-mxnet",
    ] = Field(
        default="auto",
        description="auto: what PyTorch trains with on that device. nccl goes between GPUs, all others between cores. "
        "grpc: TensorFlow's ring; mirrored and kvstore-device: TensorFlow's and MXNet's sums within a process; "
        "kvstore-dist-…: MXNet's servers; horovod-…: Horovod in that framework",
    )
    max_bytes: Annotated[int, Field(strict=True, ge=4, le=2**30)] = Field(
        default=2**28,
        description="size of the largest message; they are the powers of two from 4 bytes, and "
        "some between them where a library seems to change what it does",
    )
    budget_s: Annotated[float, Field(strict=True, ge=1, le=86400)] = Field(
        default=300.0,
        description="seconds that the measurements of a run may take. Where they are short, first repetitions and then "
        "the largest messages are left out",
    )

    def spec(self) -> dict[str, Any]:
        """See ``ProbeRequest``."""
        self._check()
        library = LIBRARIES[self.library]
        return super().spec() | {
            "name": f"netbench-{self.library}-{self.topology}",
            "framework": library.framework,
            "strategy": library.strategy,
            "fabric": self.fabric,
            "device": library.device if self.device == "auto" else self.device,
            "timeout_s": self.budget_s + START_S,
        }

    def _check(self) -> None:
        try:
            topology = Topology.parse(self.topology)
        except ValueError as error:
            raise InvalidRequest([Problem("/topology", str(error))]) from None
        if topology.world_size < 2:
            raise InvalidRequest([Problem("/topology", f"{self.topology} has one rank: nothing is exchanged")])
        device = LIBRARIES[self.library].device
        if self.library != "auto" and self.device not in ("auto", device):
            message = f"{self.library} goes between {device} devices, not {self.device} devices"
            raise InvalidRequest([Problem("/library", message)])
