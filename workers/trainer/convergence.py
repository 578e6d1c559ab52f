"""Training to a target, or for a budget: the one timed loop, with evaluations between its intervals.

Rank 0 evaluates: it holds the same weights as the others, which wait for its next order meanwhile. What it has counted
goes into the log as it is. Nothing of an evaluation is in an interval. ``suites.quality`` says what a metric counts,
``suites.inputs`` what it is counted on: examples that are not trained on, always the same ones.
"""

import importlib
import time
from typing import Dict, Tuple

from workers.trainer.control import Channel
from workers.trainer.failure import TrainerError
from workers.trainer.job import Job, Process
from workers.trainer.loop import Loop
from workers.trainer.pace import Pace
from workers.trainer.signatures import Adapter, Clock, Emit

# Why it ends, beside what ends other runs.
TARGET, BUDGET = "target", "budget"


class Convergence(Loop):
    """Runs one process of an attempt whose plan's mode is ``convergence``."""

    def __init__(
        self, job: Job, process: Process, adapter: Adapter, channel: Channel, emit: Emit, clock: Clock = time.monotonic
    ) -> None:
        super().__init__(job, process, adapter, channel, emit, clock)
        self._evaluates = process.rank == job.leading_ranks[0]
        self._quality = job.model.facts.get("quality") or {}
        # Seconds of all intervals of this rank, and since the first of them began.
        self._trained_s = 0.0
        self._begun = None
        self._evaluated_at = None

    def _train(self):
        """Train from evaluation to evaluation until the target is reached, or the budget, or a request comes."""
        if self._evaluates:
            self._check()
        multiple = self._job.strategy.step_multiple
        pace = Pace(self._job.interval_s, self._job.plan.max_steps, multiple)
        self._adapter.synchronize()
        self._begun = self._clock()
        while True:
            proposal, reason = pace.next(), BUDGET
            if self._evaluates:
                proposal, reason = self._decided(proposal)
            order = self._channel.turn(self._steps, proposal, reason)
            if "stop" in order:
                return order["stop"]
            duration_s = self._interval(order["phase"], order["go"])
            pace.note(order["go"], duration_s)
            self._trained_s += duration_s
            self._read_loss()

    def _check(self):
        """Refuse what could not be evaluated before anything is trained.

        Raises:
            TrainerError: ``unsupported``, the adapter or the model has nothing to evaluate.
        """
        if "evaluate" not in self._adapter.abilities:
            raise TrainerError("unsupported", "%s has no evaluation" % self._job.plan.framework)
        if not self._quality:
            raise TrainerError("unsupported", "the facts of the model name no quality")

    def _decided(self, proposal):
        """Evaluate if it is time; return what comes next and, where that is nothing, why."""
        plan = self._job.plan
        over = proposal is None or (plan.max_measure_s is not None and self._trained_s >= plan.max_measure_s)
        every = self._every()
        if self._steps and self._steps != self._evaluated_at and (over or self._steps % every == 0):
            self._evaluated_at = self._steps
            if self._evaluate():
                return None, TARGET
        if over:
            return None, BUDGET
        phase, n = proposal
        return (phase, min(n, every - self._steps % every)), BUDGET

    def _every(self):
        """Return after how many steps an evaluation comes: a multiple of what intervals are multiples of."""
        multiple = self._job.strategy.step_multiple
        return -(-self._job.plan.evaluate_every // multiple) * multiple

    def _evaluate(self):
        """Count over all examples, emit what was counted; return whether the target is reached.

        Raises:
            TrainerError: ``setup_failed``, there is nothing to evaluate on.
        """
        begun, elapsed_s = self._clock(), self._clock() - self._begun
        quality = importlib.import_module("suites.quality")
        metric, target = self._quality["metric"], self._job.plan.target
        sums, samples, loss = counted(self._job, self._adapter)
        self._emit(
            "evaluation",
            step=self._steps,
            metric=metric,
            sums=sums,
            samples=samples,
            loss=loss,
            cost_s=self._clock() - begun,
            trained_s=self._trained_s,
            elapsed_s=elapsed_s,
        )
        if target is None:
            return False
        return quality.reaches(quality.value(metric, sums), target, self._quality["better"])


def counted(job: Job, adapter: Adapter) -> Tuple[Dict[str, float], int, float]:
    """Return (sums, samples, loss) of an evaluation: totals, and the mean loss over all samples.

    Raises:
        TrainerError: ``setup_failed``, there are no examples.
    """
    inputs = importlib.import_module("suites.inputs.%s" % job.model.input)
    metric = importlib.import_module("suites.quality").module_of(job.model.facts["quality"]["metric"])
    sums: Dict[str, float] = {}
    samples, loss = 0, 0.0
    for examples in inputs.evaluation(job, job.model.size):
        outputs, batch_loss = adapter.evaluate(examples.inputs + examples.targets)
        for name, amount in metric.sums(outputs, examples, adapter.outputs).items():
            sums[name] = sums.get(name, 0.0) + amount
        count = len(examples.inputs[0])
        samples, loss = samples + count, loss + batch_loss * count
    if not samples:
        raise TrainerError("setup_failed", "the dataset keeps nothing apart to evaluate on")
    return sums, samples, loss / samples
