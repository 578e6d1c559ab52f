"""CNTK's own times of the nodes of a network, which it prints on standard error and gives in no other way."""

import re
import time
from typing import Any, Callable

from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import printed

# "Convolution6    forward avg 0.000298s, backward avg 0.000364s (fwd# 2|bwd# 2)"
LINE = re.compile(r"^(\S+)\s+forward avg ([\d.]+)s, backward avg ([\d.]+)s \(fwd# (\d+)\|bwd# (\d+)\)")


def activity(trainers: Any, step: Callable[[], Any], synchronize: Callable[[], None], steps: int) -> Data:
    """Return {active_s, elapsed_s, method} of so many steps: nodes are computed one after another, so times add up."""
    import cntk

    # CNTK 2.7 cannot switch it off again: nothing is timed after this.
    cntk.debugging.set_node_timing(True)
    begun = time.monotonic()
    for _ in range(steps):
        step()
    synchronize()
    elapsed_s = time.monotonic() - begun
    active_s = sum(total(printed.on_standard_error(trainer.print_node_timing)) for trainer in trainers)
    return {"active_s": min(active_s, elapsed_s), "elapsed_s": elapsed_s, "method": "node-sum"}


def total(text: str) -> float:
    """Return the seconds of all nodes in what CNTK has printed."""
    found = [match.groups() for match in map(LINE.match, text.splitlines()) if match]
    return sum(float(fs) * int(fn) + float(bs) * int(bn) for _, fs, bs, fn, bn in found)
