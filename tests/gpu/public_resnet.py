"""torchvision's ResNet-50, trained as its users train it: what tbd's is held against on the same device.

``python3 -m tests.gpu.public_resnet PRECISION BATCH SECONDS DEVICE [--fast]``: batches of random images on the device,
SGD with momentum. ``--fast``: channels_last and torch.compile. Prints {"images_per_s"} of the later three quarters.
"""

import contextlib
import json
import sys
import time
from typing import Any, List

import torch
import torchvision

CHUNK = 5


def main(arguments: List[str]) -> None:
    """Train for so long."""
    precision, batch, seconds, kind = arguments[0], int(arguments[1]), float(arguments[2]), arguments[3]
    fast = "--fast" in arguments
    device = torch.device(kind)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True
    network: Any = torchvision.models.resnet50(weights=None).to(device).train()
    images, labels = torch.rand(batch, 3, 224, 224, device=device), torch.randint(1000, (batch,), device=device)
    if fast:
        network, images = network.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
        network = torch.compile(network)
    rule = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    cast: Any = contextlib.nullcontext
    if precision == "amp-bf16":
        cast = lambda: torch.autocast(kind, dtype=torch.bfloat16)  # noqa: E731

    def step() -> None:
        rule.zero_grad()
        with cast():
            loss = torch.nn.functional.cross_entropy(network(images), labels)
        loss.backward()
        rule.step()

    def wait() -> None:
        if kind == "cuda":
            torch.cuda.synchronize(device)

    for _ in range(2 if kind == "cpu" else 10):
        step()
    wait()
    chunks: List[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(chunks) < 4:
        begun = time.perf_counter()
        for _ in range(CHUNK if kind == "cuda" else 1):
            step()
        wait()
        chunks.append(time.perf_counter() - begun)
    later = chunks[len(chunks) // 4 :]
    print(json.dumps({"images_per_s": batch * (CHUNK if kind == "cuda" else 1) * len(later) / sum(later)}))


if __name__ == "__main__":
    main(sys.argv[1:])
