"""The TBD paper's observations 1 to 12 as tests of the results in the database.

Source: Zhu et al., "Benchmarking and Analyzing Deep Neural Network Training", IISWC 2018 (arXiv 1803.06905), section 4;
told here in our own words. The paper draws them from figures; when we call an observation true is a judgement of ours:
the rules and thresholds of ``observation_rules``. ``docs/read_results/observations.md`` is the same for readers.

A series is what differs in the batch size only. Only valid results of one device are looked at. Observations about GPUs
do not apply to CPU devices; where some results are of GPUs, those are judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.analysis.paper.observation_rules import (
    BUSY,
    DOMINANT,
    FILLED,
    GROWS,
    LEAST_BATCHES,
    LONG_KERNEL,
    LOW_CPU,
    LOWER,
    MEMORY_GROWS,
    MOST,
    NOISE,
    SATURATED,
    Answer,
    CellResult,
    Finding,
    Rule,
    better_devices_are_used_less,
    feature_maps_dominate,
    filling_memory_is_wasteful,
    grows_with_batch,
    host_is_idle,
    level_grows,
    long_kernels_are_low,
    no_framework_wins_everywhere,
    on_gpus,
    recurrent_is_low,
    recurrent_not_saturated,
)


@dataclass(frozen=True)
class Observation:
    """``says``: the paper's claim in our words; ``test``: when we call it true."""

    number: int
    says: str
    test: str
    finding: Finding


def observe(cells: Sequence[CellResult]) -> list[Observation]:
    """Judge all twelve by ``cells``, the valid results of single devices."""
    return [
        Observation(number, says, test, judge(_of_its_devices(cells, gpu_only)) if cells else _nothing())
        for number, says, test, gpu_only, judge in _OBSERVATIONS
    ]


def _nothing() -> Finding:
    return Finding(Answer.NOT_ENOUGH, "there is no valid result of one device")


def _of_its_devices(cells: Sequence[CellResult], gpu_only: bool) -> Sequence[CellResult]:
    return [cell for cell in cells if cell.gpu] if gpu_only else cells


# (number, what the paper says in our words, when we call it true, of GPUs only, the rule)
_OBSERVATIONS: tuple[tuple[int, str, str, bool, Rule], ...] = (
    (
        1,
        "Throughput grows with the mini-batch size, for all models.",
        f"Every series of {LEAST_BATCHES} batch sizes or more: the rate never falls by more than {NOISE:.0%} from one "
        f"to the next, and the largest batch is {GROWS:.0%} or more faster than the smallest.",
        False,
        grows_with_batch,
    ),
    (
        2,
        "Recurrent models are not saturated by the batches that fit the GPU's memory.",
        f"Every series of a recurrent model whose largest batch takes {FILLED:.0%} of the memory or more: the last "
        f"growth of the batch still gains {SATURATED:.0%} or more per doubling.",
        True,
        on_gpus(recurrent_not_saturated),
    ),
    (
        3,
        "Which framework is fastest differs from application to application.",
        "On every device: of the models that were measured in two frameworks or more, one being more than "
        f"{NOISE:.0%} faster than the next, not all have the same winner.",
        False,
        no_framework_wins_everywhere,
    ),
    (
        4,
        "It takes a large enough mini-batch to keep the GPU busy.",
        f"Every series: GPU compute utilisation (eq. 1) grows by {GROWS:.0%} or more from the smallest to the largest "
        f"batch, or is {BUSY:.0%} or more throughout.",
        True,
        on_gpus(level_grows("compute_utilization_ratio", BUSY)),
    ),
    (
        5,
        "GPU compute utilisation is low for LSTM-based models.",
        "On every device, at the largest batches: the mean over recurrent models (eq. 1) is at most "
        f"{LOWER:.0%} of the others'.",
        True,
        on_gpus(recurrent_is_low("compute_utilization_ratio")),
    ),
    (
        6,
        "It takes a large enough mini-batch to use the FP32 units of the GPU.",
        f"Every series: FP32 utilisation (eq. 2) grows by {GROWS:.0%} or more from the smallest to the largest batch.",
        True,
        on_gpus(level_grows("fp32_utilization_ratio", 1.0)),
    ),
    (
        7,
        "Recurrent models have a low FP32 utilisation.",
        "On every device, at the largest batches: the mean over recurrent models (eq. 2) is at most "
        f"{LOWER:.0%} of the others'.",
        True,
        on_gpus(recurrent_is_low("fp32_utilization_ratio")),
    ),
    (
        8,
        "Even highly optimised models have kernels that take long and use the FP32 units little.",
        f"Every kernel table: one of the five longest kernels below the average utilisation takes {LONG_KERNEL:.0%} of "
        "kernel time or more.",
        True,
        on_gpus(long_kernels_are_low),
    ),
    (
        9,
        "Training on GPUs leaves the CPU mostly idle.",
        f"In {MOST:.0%} of the results or more CPU utilisation (eq. 3) is {LOW_CPU:.0%} or less.",
        True,
        on_gpus(host_is_idle),
    ),
    (
        10,
        "More advanced GPUs are used less well: they need better systems and libraries.",
        f"In {MOST:.0%} of the pairs or more of the same work on two GPUs: the one with the higher data-sheet peak is "
        "faster and reaches a smaller share of it.",
        True,
        on_gpus(better_devices_are_used_less),
    ),
    (
        11,
        "Feature maps take most of the memory.",
        f"They are the largest class at the peak in {MOST:.0%} of the memory profiles or more, and their median share "
        f"is {DOMINANT:.0%} or more.",
        False,
        feature_maps_dominate,
    ),
    (
        12,
        "Filling the memory with a larger mini-batch can be wasteful.",
        f"At least one series: from the second largest batch to the largest, memory grows by {MEMORY_GROWS:.0%} or "
        f"more and throughput by less than {SATURATED:.0%}.",
        False,
        filling_memory_is_wasteful,
    ),
)
