"""The framework that only waits: it trains nothing, takes exactly known time and fails on request.

Everything else of the system is tested with it, by real processes and without installing a framework.
"""

import importlib
import platform

from workers.trainer import job as jobs


class Adapter(object):
    """See ``workers.trainer.frameworks``."""

    abilities = ("activity",)

    def __init__(self):
        self._model = None

    def versions(self):
        return {"framework": "sleep", "version": platform.python_version(), "libraries": {}}

    def join(self, job, process):
        return job["world_size"]

    def build(self, job, process, watch):
        model = importlib.import_module(job["model"]["module"] + ".sleep")
        self._model = model.build(job, process, jobs.options_of(job))
        return {"parameters": 0, "mathematics": {"precision": job["plan"]["precision"]}, "device": "none"}

    def step(self):
        return self._model.step()

    def synchronize(self):
        """Nothing is under way when a step has returned."""

    def loss(self):
        return self._model.loss()

    def activity(self, steps):
        """The waiting is the operator, so it is active all the time."""
        waited_s = sum(self._model.wait() for _ in range(steps))
        return {"active_s": waited_s, "elapsed_s": waited_s, "method": "waited"}

    def memory(self):
        return None

    def weights(self, index):
        """None: it trains nothing."""
        return iter(())

    def close(self):
        self._model = None

    def failure_of(self, error):
        return None
