"""What the profiler recorded of three steps, as it writes it itself, beside what tbd makes of the same recording.

``python3 -m tests.gpu.raw_trace JOB TRACE``: carries out a job of one rank in this process; TRACE becomes Kineto's own
file, and standard output says {active_s, elapsed_s, kernels} by tbd.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any, List

import torch

from workers.trainer.base import job as jobs
from workers.trainer.frameworks.pytorch import kernels
from workers.trainer.frameworks.pytorch.adapter import Adapter
from workers.trainer.loops.training import Watch

STEPS, WARM_UP = 3, 5


def main(job_path: str, trace_path: str) -> None:
    """Train, record, write."""
    job = jobs.job_of(json.loads(Path(job_path).read_text()))
    adapter: Any = Adapter()
    adapter.join(job, job.process)
    adapter.build(job, job.process, Watch(time.monotonic))
    for _ in range(WARM_UP):
        adapter.step()
    adapter.synchronize()
    recorded: List[Any] = []

    class Kept(torch.profiler.profile):
        """The profiler, which stays at hand when the adapter is done with it."""

        def __enter__(self) -> Any:
            recorded.append(self)
            return super().__enter__()

    torch.profiler.profile = Kept  # type: ignore[misc]
    trace = adapter._record(STEPS, adapter.step, device_only=True)
    found = kernels.table(trace, STEPS)
    recorded[0].export_chrome_trace(trace_path)
    told = {name: found[name] for name in ("active_s", "elapsed_s", "method")}
    print(json.dumps({**told, "kernels": sum(row[1] for row in found["rows"])}))
    adapter.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
