"""Training to a target, or for a budget: the one timed loop, with evaluations between its intervals.

Rank 0 evaluates: it holds the same weights as the others, which wait for its next order meanwhile. What it has counted
goes into the log as it is. Nothing of an evaluation is in an interval. ``suites.quality`` says what a metric counts,
``suites.inputs`` what it is counted on: examples that are not trained on, always the same ones.

After an evaluation rank 0 writes a checkpoint, from which another attempt of the run goes on (``checkpoint``). All
ranks go on from the one that rank 0 chooses. The evaluations before it come into the log once more: it has the whole
curve.
"""

import time
from typing import Dict, List, Tuple

from suites import modules, quality
from workers.trainer import checkpoint
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter, Clock, Data, Emit
from workers.trainer.control import Channel
from workers.trainer.loops.pace import Pace, steps_of
from workers.trainer.loops.training import Loop

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
        # Data of all evaluations so far, and what the attempts before this one needed beside it.
        self._evaluations: List[Data] = []
        self._elapsed_before_s = 0.0
        self._why_none = checkpoint.why_none(job, adapter)

    def _prepare(self):
        super()._prepare()
        self._resume()

    def _resume(self):
        """Go on from the checkpoint that rank 0 has found, if there is one.

        Raises:
            TrainerError: ``setup_failed``, this rank cannot read what rank 0 has found.
        """
        begun = self._clock()
        found, damaged = None, []
        if self._evaluates and self._why_none is None:
            found, damaged = checkpoint.newest(self._job.checkpoints.folder, self._key())
        name = self._channel.agree(found.name if found else None)
        if name is not None:
            found = found or checkpoint.read(self._job.checkpoints.folder, name)
            self._go_on(found)
        if not self._evaluates:
            return
        self._emit(
            "resumed",
            step=self._steps,
            attempt_id=found.head["attempt_id"] if found else None,
            reason=None if found else self._why_none or "no whole checkpoint of this run is here",
            damaged=damaged,
            lost_s=checkpoint.lost_s(found.head) if found else 0.0,
            cost_s=self._clock() - begun,
        )
        for data in self._evaluations:
            self._emit("evaluation", **data)

    def _go_on(self, found):
        head = found.head
        self._adapter.restore(found.arrays, head["step"])
        self._adapter.synchronize()
        self._steps = self._evaluated_at = head["step"]
        self._trained_s, self._elapsed_before_s = head["trained_s"], head["elapsed_s"]
        self._evaluations = head["evaluations"]

    def _key(self):
        return checkpoint.key_of(self._job, self._adapter.versions()["version"])

    def _keep(self):
        """Write a checkpoint; one for which there is no room costs the training nothing."""
        if self._why_none is not None:
            return
        begun = self._clock()
        head = {
            "version": checkpoint.VERSION,
            "key": self._key(),
            "attempt_id": self._job.attempt_id,
            "step": self._steps,
            "trained_s": self._trained_s,
            "elapsed_s": self._elapsed_s(),
            "evaluations": self._evaluations,
            "wall": time.time(),
        }
        try:
            written = checkpoint.write(self._job.checkpoints.folder, head, self._adapter.checkpoint())
        except OSError as error:
            written = {"bytes": None, "sha256": None, "problem": str(error)}
        self._emit("checkpoint", step=self._steps, cost_s=self._clock() - begun, **written)

    def _elapsed_s(self):
        return self._elapsed_before_s + self._clock() - self._begun

    def _train(self):
        """Train from evaluation to evaluation until the target is reached, or the budget, or a request comes."""
        if self._evaluates:
            self._check()
        multiple = self._job.strategy.step_multiple
        pace = Pace(self._job.interval_s, self._most_steps(), multiple, self._steps)
        self._adapter.synchronize()
        self._begun = self._clock()
        while True:
            proposal, reason = pace.next(), BUDGET
            if self._evaluates:
                proposal, reason = self._decided(proposal)
            order = self._channel.turn(self._steps, proposal, reason)
            if "stop" in order:
                return order["stop"]
            self._reseed()
            duration_s = self._interval(order["phase"], order["go"])
            pace.note(order["go"], duration_s)
            self._trained_s += duration_s
            self._read_loss()

    def _reseed(self):
        """Let all ranks draw anew wherever a training may go on from, so that it does not matter whether it did."""
        if self._steps % self._every() == 0 and hasattr(self._adapter, "reseed"):
            self._adapter.reseed(self._steps)

    def _check(self):
        """Refuse what could not be evaluated before anything is trained.

        Raises:
            TrainerError: ``unsupported``, the adapter or the model has nothing to evaluate.
        """
        if "evaluate" not in self._adapter.abilities:
            raise TrainerError("unsupported", "%s has no evaluation" % self._job.plan.framework)
        if not self._quality:
            raise TrainerError("unsupported", "the facts of the model name no quality")

    def _most_steps(self):
        """Return the budget in steps, or None; only rank 0 looks how long an epoch is, for it decides."""
        plan = self._job.plan
        if plan.max_epochs is None or not self._evaluates:
            return plan.max_steps
        samples = modules.input_of(self._job).epoch_samples(self._job, self._job.model.size)
        steps = steps_of(plan.max_epochs, samples, plan.per_device_batch_size * self._job.world_size)
        if plan.max_steps is not None:
            steps = min(steps, plan.max_steps)
        self._emit("epoch", samples=samples, max_steps=steps)
        return steps

    def _decided(self, proposal):
        """Evaluate if it is time; return what comes next and, where that is nothing, why."""
        plan = self._job.plan
        over = proposal is None or (plan.max_measure_s is not None and self._trained_s >= plan.max_measure_s)
        every = self._every()
        if self._steps and self._steps != self._evaluated_at and (over or self._steps % every == 0):
            self._evaluated_at = self._steps
            if self._evaluate():
                return None, TARGET
            if not over:
                self._keep()
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
        begun, elapsed_s = self._clock(), self._elapsed_s()
        metric, target = self._quality["metric"], self._job.plan.target
        sums, samples, loss = counted(self._job, self._adapter)
        data = {
            "step": self._steps,
            "metric": metric,
            "sums": sums,
            "samples": samples,
            "loss": loss,
            "cost_s": self._clock() - begun,
            "trained_s": self._trained_s,
            "elapsed_s": elapsed_s,
        }
        self._evaluations.append(data)
        self._emit("evaluation", **data)
        if target is None:
            return False
        return quality.reaches(quality.value(metric, sums), target, self._quality["better"])


def counted(job: Job, adapter: Adapter) -> Tuple[Dict[str, float], int, float]:
    """Return (sums, samples, loss) of an evaluation: totals, and the mean loss over all samples.

    Raises:
        TrainerError: ``setup_failed``, there are no examples.
    """
    metric = quality.module_of(job.model.facts["quality"]["metric"])
    sums: Dict[str, float] = {}
    samples, loss = 0, 0.0
    for examples in modules.input_of(job).evaluation(job, job.model.size):
        outputs, batch_loss = adapter.evaluate(examples.inputs + examples.targets)
        for name, amount in metric.sums(outputs, examples, adapter.outputs).items():
            sums[name] = sums.get(name, 0.0) + amount
        count = len(examples.inputs[0])
        samples, loss = samples + count, loss + batch_loss * count
    if not samples:
        raise TrainerError("setup_failed", "the dataset keeps nothing apart to evaluate on")
    return sums, samples, loss / samples
