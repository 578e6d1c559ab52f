"""Result files as milabench writes them: one event a line."""

import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any

CONFIG = {
    "name": "resnet50",
    "run_name": "kolerovu.2025-04-15_11:49:00.061097",
    "plan": {"method": "per_gpu"},
    "device": 0,
    "devices": [0],
    "argv": {"--batch-size": 128, "--data": "/scratch/imagenet"},
}
META = {
    "os": {"nodename": "gpu-node", "release": "5.15.0"},
    "accelerators": {
        "gpus": {"0": {"product": "NVIDIA L40S"}, "1": {"product": "NVIDIA L40S"}},
        "system": {"DRIVER_VERSION": "560.35.03"},
    },
    "milabench": {"tag": "v1.1.0", "commit": "51a0993"},
    "pytorch": {"torch": "2.6.0+cu126"},
}


def event(kind: str, data: Any) -> bytes:
    return json.dumps({"event": kind, "data": data, "pipe": "data"}).encode() + b"\n"


def rate(value: Any, **more: Any) -> bytes:
    return event("data", {"task": "train", "rate": value, "units": "items/s"} | more)


def lines(
    *between: bytes, rates: tuple[Any, ...] = (90.0, 100.0, 110.0), code: int | None = 0, **config: Any
) -> list[bytes]:
    """The lines of a process with ``rates`` and then ``between``; ``code``: of its end, None: it has none."""
    found = [
        event("config", CONFIG | config),
        event("meta", META),
        event("start", {"command": [], "time": 1744733049.5}),
    ]
    found += [event("data", {"task": "train", "loss": 1.5}), event("line", "printed\n"), *map(rate, rates), *between]
    if code is not None:
        found.append(event("end", {"command": [], "time": 1744733100.0, "return_code": code}))
    return found


def archive(files: Mapping[str, bytes]) -> bytes:
    """A tar of files by their names."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return content.getvalue()
