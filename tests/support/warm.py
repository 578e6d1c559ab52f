"""An interpreter of a framework that stays warm: one process carries out one job after another, as the trainer does.

Importing a framework takes seconds, a phase of a tiny network tenths of one. For phases whose result is the same in a
process of its own; what a job changes in its framework, the next one has.
"""

import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

from tests.trainer_process import ROOT, environment_for
from workers.trainer import protocol

# Python 3.6, as the trainer. What frameworks print goes elsewhere.
_PROCESS = """
import os, sys
from workers.trainer import __main__ as trainer
with os.fdopen(int(sys.argv[1]), "w") as answers:
    for line in sys.stdin:
        job, events, phase = line.rstrip("\\n").split("\\t")
        answers.write("%d\\n" % trainer.main(["--job", job, "--events", events, "--phase", phase]))
        answers.flush()
"""


class Interpreter:
    """A process of ``python``, begun with the first job; its output is in ``folder``.

    Raises:
        AssertionError: (of ``carry_out``) a job failed, or the process ended or did not answer; says what it printed.
    """

    def __init__(self, python: str, folder: Path) -> None:
        self._python = python
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._answers = -1

    def carry_out(self, job: dict[str, Any], phase: str, folder: Path, timeout_s: float = 240.0) -> None:
        """Carry out the one process of ``job``, its files in ``folder``."""
        process = self._process or self._begin(job)
        (folder / "job.json").write_text(json.dumps({**job, "process": job["processes"][0]["name"]}))
        assert process.stdin
        process.stdin.write(f"{folder / 'job.json'}\t{folder / 'events.jsonl'}\t{phase}\n")
        process.stdin.flush()
        ready, _, _ = select.select([self._answers], [], [], timeout_s)
        answer = os.read(self._answers, 100).decode() if ready else f"none within {timeout_s:g} s"
        if answer != "0\n":
            self.close()
        assert answer == "0\n", f"status {answer or '(it ended)'}: {self._output.read_text(errors='replace')}"

    @property
    def _output(self) -> Path:
        return self._folder / "output.txt"

    def _begin(self, job: dict[str, Any]) -> "subprocess.Popen[str]":
        self._answers, theirs = os.pipe()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), protocol.TOKEN_VARIABLE: job["token"]}
        environment.update(environment_for(self._python), PYTHONDONTWRITEBYTECODE="1")
        # Nothing is timed: threads that spin would only take cores from others.
        environment.update(OMP_WAIT_POLICY="PASSIVE", KMP_BLOCKTIME="0")
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [self._python, "-c", _PROCESS, str(theirs)],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs],
                text=True,
            )
        os.close(theirs)
        return self._process

    def close(self) -> None:
        """End the process, if there is one; the next job begins another."""
        if self._process:
            self._process.kill()
            self._process.communicate()
            os.close(self._answers)
            self._process = None
