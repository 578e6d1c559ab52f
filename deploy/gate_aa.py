"""What ``make gate-aa`` does: nights in which nothing changes, on a fast clock, of which the regression gate tries one
pair of equal arms each. Whatever it calls slower, in a pair or in the nights, is a false alarm.

The service is the real one (SQLite, local agents), and so is the training; only the server's clock is ours
(``deploy.nightly_demo``). MINUTES (60) says when it stops, after fewer nights than NIGHTS (30) where that is too short.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from deploy.nightly_demo import BEFORE_S, SCHEDULE, Demo, end_in_order, say
from orchestrator.cli.rest.client import Client

NIGHTS, MINUTES = int(os.environ.get("NIGHTS", "30")), float(os.environ.get("MINUTES", "60"))
BUDGET = 40.0  # device time of pairs / that of the nights: a night has two runs, a pair eight or more
LOOKED_S = 20.0  # of the real clock, in which the gate begins with a pair
SPEC = """name: nightly
model: resnet-50
framework: pytorch
size: tiny
per_device_batch_size: 2
device: cpu
repeats: 2
max_repeats: 2
max_measure_s: 2.0
"""


def rest(client: Client) -> None:
    """Wait until nothing goes on any more, for some seconds on end."""
    quiet = time.monotonic()
    while time.monotonic() < quiet + LOOKED_S:
        if client.get("/experiments", state="active", limit=1)["items"]:
            quiet = time.monotonic()
        time.sleep(1.0)


def main() -> int:
    end_in_order()
    end = time.monotonic() + 60.0 * MINUTES
    with tempfile.TemporaryDirectory(prefix="tbd-gate-") as name:
        spec = Path(name, "night.yaml")
        spec.write_text(SPEC, encoding="utf-8")
        os.environ["TBD_GATE_BUDGET_RATIO"] = str(BUDGET)
        demo = Demo(Path(name), spec)
        try:
            demo.start()
            demo.add()
            client = Client(demo.url)
            for night in range(1, NIGHTS + 1):
                if time.monotonic() > end:
                    break
                at = demo.next_at()
                demo.move_to(at - BEFORE_S)
                demo.over(at)
                rest(client)
                found = client.get("/alerts/equal-arms")
                say(f"night {night} of {NIGHTS}: {found['told']} pairs told, {found['slower']} called slower")
            print(demo.tbd("nightly", SCHEDULE, "--nights", str(NIGHTS)))
            print(demo.tbd("alerts"), end="", flush=True)
            found = client.get("/alerts/equal-arms")
            wrong = [one["id"] for one in client.get("/alerts")["items"] if one["state"] == "open"]
            return 0 if found["told"] and not found["slower"] and not wrong else 1
        finally:
            demo.stop()


if __name__ == "__main__":
    sys.exit(main())
