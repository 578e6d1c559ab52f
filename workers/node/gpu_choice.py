"""Which GPUs of this node are offered, and why the others are not.

Owns ``CUDA_VISIBLE_DEVICES`` of the agent, the settings ``TBD_GPUS`` and ``TBD_GPU_SHARE``, and the look for other
users. A GPU that was not chosen is no device of this node. One that cannot be used now (somebody computes on it, the
driver has lost it or says that it is not well) is withheld, with the reason.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from workers.node import locality
from workers.node.telemetry.nvml import Gpu, Nvml, Use

IDLE = "idle"
LOST = "the driver has lost it; reset it (nvidia-smi --gpu-reset) or the host, then start the agent anew"

# Judgements for ``TBD_GPUS=idle``, where the driver may list no processes (containers): what an idle device shows at
# most. The driver keeps about 0.6 GB of an H100 for itself.
IDLE_BUSY_RATIO = 0.05
IDLE_USED_BYTES = 2 * 10**9


class Choice(NamedTuple):
    """``gpus``: those of this node. ``left_out``: what was not chosen, for a person; None where nothing was."""

    gpus: list[Gpu]
    left_out: str | None


def chosen(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> Choice:
    """Return those of ``gpus`` (in the driver's order) that the agent may see, and that the operator wants.

    Raises:
        ValueError: ``TBD_GPUS`` names what there is not; ``TBD_GPU_SHARE`` is no share.
    """
    seen = list(gpus)
    reasons = []
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        seen = _visible(seen, visible, environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID")
        reasons.append(f"CUDA_VISIBLE_DEVICES={visible}")
    wanted = (environment.get("TBD_GPUS") or "").strip()
    if wanted and wanted != IDLE:
        named = _named(gpus, wanted)
        seen = [gpu for gpu in seen if gpu in named]
        reasons.append(f"TBD_GPUS={wanted}")
    share = environment.get("TBD_GPU_SHARE")
    if share:
        seen = _share(seen, share)
        reasons.append(f"TBD_GPU_SHARE={share}")
    out = [gpu.number for gpu in gpus if gpu not in seen]
    return Choice(seen, f"GPU {', '.join(out)} left out: {', '.join(reasons)}" if out else None)


def _visible(gpus: Sequence[Gpu], text: str, by_bus: bool) -> list[Gpu]:
    """What CUDA would see (CUDA programming guide, "CUDA Environment Variables"): numbers or beginnings of UUIDs, up to
    the first that names nothing. CUDA counts the fastest first unless told otherwise, NVML along the bus: where the
    models differ a number names no GPU for certain, and so none here."""
    found: list[Gpu] = []
    certain = by_bus or len({gpu.name for gpu in gpus}) <= 1
    for item in text.split(","):
        item = item.strip()
        if item.isdigit() and not certain:
            break
        matching = [gpu for gpu in gpus if _is(gpu, item)]
        if len(matching) != 1:
            break
        found += [gpu for gpu in matching if gpu not in found]
    return found


def _named(gpus: Sequence[Gpu], text: str) -> list[Gpu]:
    found: list[Gpu] = []
    for item in text.split(","):
        matching = [gpu for gpu in gpus if _is(gpu, item.strip())]
        if len(matching) != 1:
            there = ", ".join(f"{gpu.number} ({gpu.id})" for gpu in gpus) or "none"
            raise ValueError(
                f"TBD_GPUS={text}: {item.strip() or 'nothing'} names {len(matching)} GPUs; write indices of nvidia-smi,"
                f" UUIDs or their beginnings, with commas, or {IDLE}; there are: {there}"
            )
        found += matching
    return found


def _is(gpu: Gpu, item: str) -> bool:
    return gpu.number == item or (re.match("(GPU|MIG)-.", item) is not None and gpu.id.startswith(item))


def _share(gpus: Sequence[Gpu], text: str) -> list[Gpu]:
    """``2/4``: of four equal parts the second; what is left over belongs to none."""
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if match is None or int(match.group(1)) > int(match.group(2)):
        raise ValueError(f"TBD_GPU_SHARE={text}: it is NUMBER/PARTS, as 1/2")
    number, parts = int(match.group(1)), int(match.group(2))
    size = len(gpus) // parts
    return list(gpus[(number - 1) * size : number * size])


def _amiss(gpu: Gpu, links: Mapping[Gpu, Mapping[str, int]]) -> Iterator[str]:
    """What of its ``links`` is less than it could be, or than GPUs of its model beside it have."""
    own = links[gpu]
    width, most = own.get("pcie_width"), own.get("pcie_most_width")
    if width and most and width < most:
        yield f"PCIe has {width} of {most} lanes: see that it sits well in its slot (nvidia-smi -q)"
    beside = max((found.get("nvlinks", 0) for one, found in links.items() if one.name == gpu.name), default=0)
    if own.get("nvlinks", beside) < beside:
        yield f"{own['nvlinks']} NVLinks are up, and {beside} of a GPU beside it (nvidia-smi nvlink -s)"


class Offer:
    """The GPUs of this node as they can be had now.

    Args:
        environment: of the agent.
        cores: the logical cores of this node that are divided among the GPUs for those who share it, in the order of
            their places.

    Raises:
        ValueError: see ``chosen``.
    """

    def __init__(self, nvml: Nvml, environment: Mapping[str, str], cores: Sequence[int] = ()) -> None:
        self._nvml = nvml
        self._gpus, self.left_out = chosen(nvml.gpus(), environment)
        self._only_idle = (environment.get("TBD_GPUS") or "").strip() == IDLE
        # A host of which several agents have a part each divides its cores as well: each agent's are for its own GPUs.
        beside = self._gpus if environment.get("TBD_GPU_SHARE") else nvml.gpus()
        self._near = locality.near_cores({gpu.id: gpu.near_cores for gpu in beside}, cores)
        self._pids: dict[str, list[int]] = {}
        self.withheld: dict[str, str] = {}
        # GPU -> why it is not well, as its driver says; those are withheld too.
        self.ailments: dict[str, list[str]] = {}
        # GPU -> what is amiss with its links: it computes right, and slower than others.
        self.doubts: dict[str, list[str]] = {}
        self.look(first=True)

    def look(self, first: bool = False) -> None:
        """See who uses the devices. Call it only while no attempt runs here: whoever computes is somebody else then,
        and nothing is measured."""
        withheld, ailments = dict(self._nvml.unusable), {}
        for gpu in self._gpus:
            use = self._nvml.use(gpu.id)
            ailing = [LOST] if use.lost else self._nvml.ailments(gpu.id)
            if ailing:
                ailments[gpu.id] = ailing
            used = None if use.lost else self._why_not(gpu, use, first)
            if why := "; ".join([*([used] if used else []), *ailing]):
                withheld[gpu.id] = f"GPU {gpu.number}: {why}"
        self.withheld, self.ailments = withheld, ailments
        links = {gpu: self._nvml.links(gpu.id) for gpu in self._gpus if gpu.id not in ailments}
        self.doubts = {gpu.id: found for gpu in links if (found := list(_amiss(gpu, links)))}

    def _why_not(self, gpu: Gpu, use: Use, first: bool) -> str | None:
        # What has just ended may be listed once more: only who is there at two looks computes.
        before, self._pids[gpu.id] = self._pids.get(gpu.id, []), use.pids or []
        lasting = [pid for pid in use.pids or [] if first or pid in before]
        if lasting:
            return f"process {', '.join(map(str, lasting))} computes on it"
        if self._only_idle and (use.busy_ratio or 0.0) > IDLE_BUSY_RATIO:
            return f"TBD_GPUS={IDLE}, and it is {use.busy_ratio:.0%} busy"
        if self._only_idle and (use.used_bytes or 0) > IDLE_USED_BYTES:
            return f"TBD_GPUS={IDLE}, and {(use.used_bytes or 0) / 1e9:.1f} GB of its memory are in use"
        return None

    @property
    def gpus(self) -> list[Gpu]:
        """The GPUs of this node as they were at the beginning, those that are withheld too."""
        return list(self._gpus)

    def devices(self) -> list[dict[str, Any]]:
        """Return the GPUs that can be had, as devices of the inventory."""
        return [
            {
                "id": gpu.id,
                "number": gpu.number,
                "kind": "cuda",
                "name": gpu.name,
                "cores": [],
                "near_cores": self._near[gpu.id],
                "memory_bytes": gpu.memory_bytes,
                # Whoever has the right may change it while the agent lives.
                "power_limit_w": gpu.power_limit_w,
                **self._nvml.rig(gpu.id),
            }
            for gpu in self._gpus
            if gpu.id not in self.withheld
        ]
