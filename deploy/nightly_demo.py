"""What ``make nightly-demo`` does: ten nights of a tiny suite on a fast clock, then the board and a history.

The service is the real one (SQLite, local agents), and so are the schedule, the trainings and what befalls them. Only
the server's clock is ours: it is as far ahead of this host's as a file says. When a night's experiment is over this
program moves it to just before the next time of the schedule. Between these moves it goes as fast as any: the hours in
which nothing happens are left out, and nothing is computed quicker.

What befalls the nights is done to the service as it would happen to it. The limit of memory that is too small one night
is a change of the schedule. The server that is down is stopped; it comes back in an environment in which oneDNN may use
old instructions only.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from orchestrator import app
from orchestrator.cli.rest.client import Client
from orchestrator.services.clock import SystemClock

ROOT = Path(__file__).resolve().parent.parent
SCHEDULE, CRON = "nightly", "0 2 * * *"
OFFSET = "TBD_NIGHTLY_DEMO_OFFSET"  # the file that says by how many seconds the server's clock is ahead
BEFORE_S = 1.0  # the next time, the clock is moved to
LATE_S = 5 * 3600.0  # after a time, the server is back that was down
LOOK_S = 0.2  # of the server's clock, between its looks at the schedule
POLL_S = 0.3  # between our looks at whether a night is over
_OF_OTHERS = ("TBD_DATABASE_URL", "TBD_TOKEN", "TBD_HOST", "TBD_TLS_CERT", "TBD_TLS_KEY", "TBD_LOCAL_NODES")  # services
NIGHT_S = 300.0  # of the real clock, that a night may take


class MovedClock(SystemClock):
    """``domain.ports.Clock``: this host's, moved ahead by what stands in a file."""

    def __init__(self, offset: Path) -> None:
        self._offset = offset

    def now(self) -> float:
        return super().now() + float(self._offset.read_text(encoding="ascii"))


@dataclass(frozen=True)
class Night:
    """One night. ``says``: what befell it; ``edit``: options of ``tbd schedule edit`` that hold for it alone.
    ``is_down``: no server is there at its time; the one that comes back afterwards has ``environment`` as well."""

    says: str = ""
    edit: Sequence[str] = ()
    is_down: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


TEN = (
    *[Night()] * 4,
    Night("somebody limits the memory to 360 MB", ("--memory-limit", "360000000")),
    Night("the limit is gone"),
    Night(
        "the server is down, and comes back with ONEDNN_MAX_CPU_ISA=SSE41 in its environment",
        is_down=True,
        environment={"ONEDNN_MAX_CPU_ISA": "SSE41"},
    ),
    *[Night()] * 3,
)
QUICK = (Night(), Night("the server is down", is_down=True), Night("a limit of 64 MiB", ("--memory-limit", "67108864")))


class Demo:
    """A service on ``folder`` and one schedule of it."""

    def __init__(self, folder: Path, spec: Path) -> None:
        self._spec = spec
        self._offset = folder / "clock"
        self._offset.write_text("0", encoding="ascii")
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in _OF_OTHERS},
            "TBD_CLUSTER": "local",
            "TBD_CPU_DEVICES": str(os.cpu_count() or 1),  # one core each: what else runs matters least to them
            "TBD_DATA_DIR": str(folder / "data"),
            "COLUMNS": str(shutil.get_terminal_size((100, 24)).columns),  # our pipe has none
            OFFSET: str(self._offset),
        }
        self._server: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, __file__, "serve", "--port", "0", "--end-runs", "--json"]
        self._server = subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE, text=True)
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise SystemExit(self._server.wait() or 1)
        self._environment["TBD_SERVER"] = json.loads(line)["url"]

    def stop(self) -> None:
        """An orderly stop, as Ctrl-C would do it."""
        if self._server is None:
            return
        self._server.send_signal(signal.SIGTERM)
        try:
            self._server.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._server = None

    def tbd(self, *words: str) -> str:
        """What the command prints. Raises ``CalledProcessError``."""
        command = [sys.executable, "-m", "orchestrator.cli.main", *words]
        done = subprocess.run(command, env=self._environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    @property
    def url(self) -> str:
        """Of the server that runs."""
        return self._environment["TBD_SERVER"]

    def add(self) -> None:
        """Have the one schedule."""
        self.tbd("schedule", "add", SCHEDULE, CRON, str(self._spec), "--misfire", "skip")

    def live(self, nights: Sequence[Night]) -> None:
        """Have the nights come, one after another."""
        self.add()
        for number, night in enumerate(nights, start=1):
            began = time.monotonic()
            if night.edit:
                self.tbd("schedule", "edit", SCHEDULE, *night.edit)
            at = self.next_at()
            if night.is_down:
                self._miss(at, night.environment)
            else:
                self.move_to(at - BEFORE_S)
            fire = self.over(at)
            if night.edit:
                self.tbd("schedule", "edit", SCHEDULE, "--spec", str(self._spec))
            what = fire["experiment_state"] or fire["state"]
            took = f"{what} after {time.monotonic() - began:.0f} s" + (f": {night.says}" if night.says else "")
            say(f"night {number} of {len(nights)}, {fire['fire_at'][:10]}: {took}")

    def _schedule(self) -> dict[str, Any]:
        """Asked for without a command: what looks again and again must not take the cores of what is measured."""
        return dict(Client(self.url).get("/schedules", name=SCHEDULE)["items"][0])

    def next_at(self) -> float:
        """The next time of the schedule, in seconds since the epoch."""
        return datetime.fromisoformat(self._schedule()["upcoming"][0]).timestamp()

    def move_to(self, time_s: float) -> None:
        """Have the server's clock show ``time_s``. In one step: a file that is half written is no number."""
        new = self._offset.with_suffix(".new")
        new.write_text(repr(time_s - time.time()), encoding="ascii")
        new.replace(self._offset)

    def _miss(self, at: float, environment: Mapping[str, str]) -> None:
        self.stop()
        self.move_to(at + LATE_S)
        self._environment |= environment
        self.start()

    def over(self, at: float) -> dict[str, Any]:
        """The fire of that time once nothing of it goes on.

        Raises:
            TimeoutError: it still does.
        """
        end = time.monotonic() + NIGHT_S
        while time.monotonic() < end:
            fire: dict[str, Any] | None = self._schedule()["last_fire"]
            if fire is not None and _is_over(fire, at):
                return fire
            time.sleep(POLL_S)
        raise TimeoutError(f"a night was not over within {NIGHT_S:.0f} s")


def _is_over(fire: Mapping[str, Any], at: float) -> bool:
    return datetime.fromisoformat(fire["fire_at"]).timestamp() == at and fire["experiment_state"] != "active"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def show(spec: Path, nights: Sequence[Night], framework: str) -> None:
    """Live through the nights in a folder of their own; print the board, and the history of that framework's series."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tbd-nightly-") as folder:
        demo = Demo(Path(folder), spec)
        try:
            demo.start()
            demo.live(nights)
            print(demo.tbd("nightly", SCHEDULE, "--nights", str(len(nights))))
            (series,) = json.loads(demo.tbd("history", "--framework", framework, "--json"))["items"]
            print(demo.tbd("history", series["key"]), end="", flush=True)
        finally:
            demo.stop()
    say(f"{len(nights)} nights took {time.monotonic() - began:.0f} s")


def end_in_order() -> None:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that the server is stopped."""

    def leave(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["serve"]:
        return app.main(arguments[1:], clock=MovedClock(Path(os.environ[OFFSET])), poll_s=LOOK_S)
    end_in_order()
    if arguments[:1] == ["--quick"]:
        show(Path(arguments[1]), QUICK, "sleep")
    else:
        show(ROOT / "deploy" / "nightly-demo.yaml", TEN, "pytorch")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
