"""The same network, data and optimiser as a job's, in a plain loop: no agent, no intervals, no readings.

``python3 -m tests.gpu.bare_loop JOB WARM_UP_S SECONDS`` prints {steps_per_s}.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.gpu.public import rate
from workers.trainer.base import job as jobs
from workers.trainer.frameworks.pytorch.adapter import Adapter
from workers.trainer.loops.training import Watch


def main(job_path: str, warm_up_s: str, seconds: str) -> None:
    """Train for so long, and print."""
    job = jobs.job_of(json.loads(Path(job_path).read_text()))
    adapter: Any = Adapter()
    adapter.join(job, job.process)
    adapter.build(job, job.process, Watch(time.monotonic))
    found = rate(adapter.step, adapter.synchronize, float(warm_up_s), float(seconds))
    print(json.dumps({"steps_per_s": found}))
    adapter.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
