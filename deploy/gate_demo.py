"""What ``make gate-demo`` does: nights of a model from a git repository under ``TBD_SUITE_PATH``, on a fast clock. A
commit changes nothing, in one night the whole node is slow, a later commit makes the model slower; the regression gate
makes the old commit again beside the new one, says which of the two it was, and tells a webhook. Of the rest it says
nothing.

The service is the real one (SQLite, local agents), and so are its processes, the repository, the confirmation, and the
receiver of the webhook. The model trains nothing: it waits in each step, so that fourteen nights take two minutes. Only
the server's clock is ours (``deploy.nightly_demo``).
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.nightly_demo import BEFORE_S, ROOT, SCHEDULE, Demo, end_in_order, say
from deploy.receiver import Receiver
from orchestrator.cli.rest.client import Client

NIGHTS, LAST = 14, 3  # so many, of which the last so many are of the slow commit
COMMENT = 4  # the night before which a commit changes a comment
SLOW_NODE = 6  # the night in which the node is slow
STEP_S, SLOW_S = 0.010, 0.012
BUDGET = 3.0  # device time of confirmations / that of the nights: they are few and short
TRIED_S, TOLD_S = 300.0, 30.0  # of the real clock, that the gate and the webhook may take
MODEL = '''"""The model of the demo: it waits in each step, by an eighth longer where the node is slow."""

import os

from suites.models.sleep import sleep

STEP_S = {step}  # {comment}


def build(job, process, options):
    return sleep.build(job, process, dict(options, step_time_s=STEP_S * (1.12 if os.path.exists("{slow}") else 1.0)))
'''
SPEC = """name: nightly
model: waiting-net
framework: sleep
per_device_batch_size: [1, 2]
device: cpu
repeats: 1
max_measure_s: 1.0
"""


class Repository:
    """A folder of models in git."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.slow = folder.with_name("the-node-is-slow")  # a file: while it is there
        own = folder / "waiting_net"
        own.mkdir(parents=True)
        facts = (ROOT / "suites" / "models" / "sleep" / "model.toml").read_text(encoding="utf-8")
        (own / "model.toml").write_text(facts.replace('name = "sleep"', 'name = "waiting-net"', 1), encoding="utf-8")
        (own / "__init__.py").touch()
        (folder / ".gitignore").write_text("__pycache__\n", encoding="utf-8")
        self._git("init", "--quiet")

    def commit(self, step_s: float, comment: str) -> str:
        """Commit the model as it waits that long; the commit."""
        text = MODEL.format(step=step_s, comment=comment, slow=self.slow)
        (self.folder / "waiting_net" / "sleep.py").write_text(text, encoding="utf-8")
        self._git("add", "--all")
        self._git("-c", "user.name=demo", "-c", "user.email=demo@localhost", "commit", "--quiet", "-m", comment)
        return self._git("rev-parse", "HEAD")

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(self.folder), *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()


def tried(demo: Demo) -> Mapping[str, Any]:
    """The newest alert, as soon as the gate has said what it is.

    Raises:
        TimeoutError: it has not within ``TRIED_S``.
    """
    end = time.monotonic() + TRIED_S
    while time.monotonic() < end:
        alerts = Client(demo.url).get("/alerts")["items"]
        if alerts and alerts[0]["state"] != "trying":
            return dict(alerts[0])
        time.sleep(0.5)
    raise TimeoutError(f"the gate has told nothing within {TRIED_S:.0f} s")


def told(receiver: Receiver, secret: str) -> list[tuple[str, str]]:
    """(id, state) of each alert of the messages that came, with a signature that is right.

    Raises:
        TimeoutError: none has come within ``TOLD_S``.
    """
    end = time.monotonic() + TOLD_S
    while not receiver.received:
        if time.monotonic() > end:
            raise TimeoutError(f"the webhook was told nothing within {TOLD_S:.0f} s")
        time.sleep(0.1)
    messages = [one.told for one in receiver.received if one.is_signed_by(secret)]
    return [(one["id"], one["state"]) for message in messages for one in message["data"]["alerts"]]


def main() -> int:
    end_in_order()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tbd-gate-") as name:
        folder = Path(name)
        repository = Repository(folder / "suite")
        first = repository.commit(STEP_S, "as it was")
        (folder / "night.yaml").write_text(SPEC, encoding="utf-8")
        os.environ |= {"TBD_SUITE_PATH": str(repository.folder), "TBD_GATE_BUDGET_RATIO": str(BUDGET)}
        demo, receiver = Demo(folder, folder / "night.yaml"), Receiver()
        try:
            demo.start()
            demo.add()
            secret = demo.tbd("webhooks", "add", receiver.url).strip()
            for night in range(1, NIGHTS + 1):
                if night == COMMENT:
                    say(f"commit {repository.commit(STEP_S, 'another comment')[:12]} changes a comment")
                if night == NIGHTS - LAST + 1:
                    say(f"commit {repository.commit(SLOW_S, 'a costly operator')[:12]} makes each step longer")
                if night == SLOW_NODE:
                    repository.slow.touch()
                at = demo.next_at()
                while Client(demo.url).get("/experiments", state="active", limit=1)["items"]:
                    time.sleep(0.2)  # equal arms: no run may last from one day to the next
                demo.move_to(at - BEFORE_S)
                slow = ", the whole node was slow" if repository.slow.exists() else ""
                say(f"night {night} of {NIGHTS}: {demo.over(at)['experiment_state']}{slow}")
                repository.slow.unlink(missing_ok=True)
            say(f"the gate tries commits side by side; the first of all was {first[:12]}")
            alert = tried(demo)
            print(demo.tbd("nightly", SCHEDULE, "--nights", str(NIGHTS)))
            print(demo.tbd("alerts"), end="", flush=True)
            messages = told(receiver, secret)
            say(f"the webhook was told, with a signature that is right: {messages}")
            say(f"{alert['id']} is {alert['state']}, after {time.monotonic() - began:.0f} s")
            alerts = [(one["id"], one["state"]) for one in Client(demo.url).get("/alerts")["items"]]
            return 0 if messages == alerts == [(alert["id"], "open")] else 1
        finally:
            demo.stop()
            receiver.close()


if __name__ == "__main__":
    sys.exit(main())
