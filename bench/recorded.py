"""What the analysis says of recorded series: those of ``tests/replays`` that have timed intervals.

Their right class is known from what was done to the run or to its machine (``tests/replays/README.md``), not from the
method; of the two steady trainings from their quarters, for which they were chosen.
"""

import numpy as np

from orchestrator.analysis.analyse import gather
from orchestrator.analysis.log.events import read_log
from orchestrator.analysis.statistics.autocorrelation import autocovariances
from orchestrator.analysis.statistics.course import CourseState
from tests.replays.replay import entries_of

# log -> (the class that is right, because)
RIGHT = {
    "good_sleep": (CourseState.STEADY, "waits 20 ms a step"),
    "good_gang": (CourseState.STEADY, "two ranks of the same"),
    "steady_pytorch": (CourseState.STEADY, "a real training, nothing beside it; quarters within 0.9 %"),
    "steady_tensorflow": (CourseState.STEADY, "the same in another framework; quarters within 1.8 %"),
    "drifting": (CourseState.DRIFTING, "each step takes 1 % of the first longer"),
    "two_speeds": (CourseState.UNSTEADY, "a third of the steps takes three times as long"),
    "levels_pytorch": (CourseState.UNSTEADY, "others came and went on a shared machine"),
    "levels_tensorflow": (CourseState.UNSTEADY, "others came and went on a shared machine"),
    "foreign_load": (CourseState.UNSTEADY, "others' tests kept both cores busy, on and off"),
    "disturbed_lstm": (CourseState.UNSTEADY, "others' work took 44 % of the cores' time, on and off"),
    "too_short": (CourseState.TOO_SHORT, "30 steps"),
    "keras_fit": (CourseState.TOO_SHORT, "40 steps"),
    "disturbed_tensorflow": (CourseState.TOO_SHORT, "the hypervisor took up to 40 % for long spells"),
}


def table() -> str:
    """Markdown: a line for each log."""
    heads = ("log", "intervals", "deviation", "autocorrelation", "what it is", "right class", "called")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, (right, because) in RIGHT.items():
        n, deviation, correlation, state = described(name)
        row = (f"`{name}`", f"{n}", f"{deviation:.1%}", f"{correlation:.2f}", because, right.value, state.value)
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def described(name: str) -> tuple[int, float, float, CourseState]:
    """(timed intervals, relative deviation and autocorrelation at lag 1 of the time per work, the class it gets)."""
    entries = entries_of(name)
    evidence = gather([read_log(entries[0]["data"]["node"], entries)])
    assert evidence.world is not None
    assert evidence.course is not None
    per_work = evidence.world.durations_s / evidence.world.works
    gamma = autocovariances(per_work, 1)
    deviation = float(np.sqrt(gamma[0]) / per_work.mean())
    return len(per_work), deviation, float(gamma[1] / gamma[0]), evidence.course.state
