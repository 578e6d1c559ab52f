"""Throughput of a cell beside another one on the same node (``exclusive: device``) / alone on it (``exclusive: node``).

On CPU devices: two of half the cores each. A pair is two cells at once against the same two one after the other, each
on one device; what they share are caches, memory and the processor's power. The ratio says why the two never stand in
one series.
"""

from contextlib import AbstractContextManager
from functools import partial
from math import sqrt
from typing import Any

from bench.ratio import Ratio, in_turn, ratio
from tests.support.service import Service, running_service

MODELS = {"resnet-50": "small", "lstm-classifier": "small", "alexnet": "tiny"}
WAIT_S = 600.0


def rig() -> AbstractContextManager[Service]:
    return running_service(Service, TBD_CPU_DEVICES="2")


def spec(model: str, exclusive: str) -> dict[str, Any]:
    """Two cells that differ in nothing but their seed."""
    return {
        "name": "bench-sharing",
        "model": model,
        "framework": "pytorch",
        "size": MODELS[model],
        "per_device_batch_size": 2,
        "seed": [1, 2],
        "exclusive": exclusive,
        "repeats": 1,
        "max_repeats": 1,
        "max_measure_s": 15,
        "min_measure_s": 15,
    }


def throughput(service: Service, model: str, exclusive: str) -> float:
    """The geometric mean of the two cells' rates, in samples a second.

    Raises:
        RuntimeError: one of them has none.
    """
    experiment = service.submit(spec(model, exclusive))
    service.wait(experiment, WAIT_S, 0.5)
    rows = service.call("GET", f"/api/v1/experiments/{experiment}/results")["items"]
    rates = [row["throughput"]["value"] for row in rows if row["throughput"]]
    if len(rates) != 2:
        raise RuntimeError(f"{experiment} has {len(rates)} numbers for two cells")
    return sqrt(rates[0] * rates[1])


def measure(service: Service, pairs: int) -> list[Ratio]:
    """A ratio for each model; the first experiment of each warms caches up and does not count."""
    found = []
    for model in MODELS:
        crowded, alone = (partial(throughput, service, model, exclusive) for exclusive in ("device", "node"))
        alone()
        taken = in_turn(pairs, crowded, alone)
        found.append(ratio(f"{model}, PyTorch: beside another cell / alone", "none: it is stated", *taken))
    return found
