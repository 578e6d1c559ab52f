"""An actor: says where it runs, and then number after number until its worker has gone.

The option ``leaves`` names a way in ``WAYS`` for the last actor to leave early, while its worker waits for more.
"""

import itertools
import os
import sys

from tests.support.acted_model import NUMBER
from workers.trainer.base import roles

EARLY = 100
# All of them end the process with status 0.
WAYS = {"returns": lambda: None, "exits": sys.exit, "ends at once": lambda: os._exit(0)}


def serve(job, process):
    others = [other.name for other in job.processes if other.beside == process.beside]
    place = others.index(process.name)
    framework = any(name.endswith(".adapter") for name in sys.modules)
    print(process.name, sorted(os.sched_getaffinity(0)), "framework" if framework else "no framework", flush=True)
    leave = WAYS.get(job.model.options.get("leaves")) if process.name == others[-1] else None
    with roles.connect(job, process) as worker:
        try:
            for number in itertools.count():
                if leave and number == EARLY:
                    leave()
                    return
                worker.sendall(NUMBER.pack(1000.0 * place + number))
        except (BrokenPipeError, ConnectionResetError):
            return
