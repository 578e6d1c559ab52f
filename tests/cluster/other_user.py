"""Another user of the Ray cluster: takes a core of the node with the address given, says what is held, waits.

python -m tests.cluster.other_user take ADDRESS | groups
"""

import sys
import time

import ray
from ray.util import placement_group_table

from tests.cluster.bench import RAY_PORT


def take(address: str) -> None:
    """Hold one CPU of the node until this process ends."""

    @ray.remote(num_cpus=1, resources={f"node:{address}": 0.01})
    class Neighbour:
        def answer(self) -> str:
            return "taken"

    neighbour = Neighbour.remote()  # without a reference to it, Ray would end it
    print(ray.get(neighbour.answer.remote(), timeout=60), flush=True)
    time.sleep(600)


def groups() -> None:
    """Print the names of the placement groups that are there."""
    there = [one["name"] for one in placement_group_table().values() if one["state"] != "REMOVED"]
    print(" ".join(there) or "none", flush=True)


if __name__ == "__main__":
    head = sys.argv[1]
    ray.init(address=f"{head}:{RAY_PORT}", namespace="another", logging_level="ERROR", log_to_driver=False)
    take(sys.argv[3]) if sys.argv[2] == "take" else groups()
