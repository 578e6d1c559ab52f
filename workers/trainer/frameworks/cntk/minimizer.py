"""One update of a step in CNTK: a trainer of one criterion, with the learner of its parameters."""

from typing import Any, List, Sequence, Tuple

import cntk

from workers.trainer.base import optimizer as rules
from workers.trainer.base.signatures import Array, Rule
from workers.trainer.base.updates import Update
from workers.trainer.frameworks.cntk import optimizers

# Between dropout's seeds of two steps: farther apart than CNTK's, which are counted from 0.
_SEEDS = 65537


class Minimizer(object):
    """Carries out ``update``, one of ``workers.trainer.base.updates``.

    Args:
        rule: by which the ``learner`` of its parameters begins.
        exchanging: the learner as the trainer has it: where there are other ranks, one that exchanges with them.
        arguments: the input variables of a batch; those that the criterion does not read are not given to it.
    """

    def __init__(self, update: Update, rule: Rule, learner: Any, exchanging: Any, arguments: Sequence[Any]) -> None:
        self.criterion = update.loss
        self.parameters = update.parameters
        self.times = update.times
        self.learner = learner
        self.trainer = cntk.Trainer(None, (update.loss, None), [exchanging])
        self._rule = rule
        read = {variable.uid for variable in update.loss.arguments}
        self._read = [(place, one) for place, one in enumerate(arguments) if one.uid in read]
        # For how many a rate was set.
        self.steps = 0
        drops = cntk.logging.graph.depth_first_search(
            update.loss, lambda node: getattr(node, "op_name", "") == "Dropout"
        )
        self._seeds = [(one, one.attributes["rngSeed"]) for one in drops]

    def train(self, batch: Sequence[Any]) -> None:
        """Update by ``batch``, a value for each argument."""
        if not rules.is_constant(self._rule):
            self.steps += 1
            rate = optimizers.schedule(self._rule, rules.rate(self._rule, self.steps))
            self.trainer.parameter_learners[0].reset_learning_rate(rate)
        self.trainer.train_minibatch(self._given(batch))

    def reseed(self, steps: int) -> None:
        """Let dropout draw by these ``steps`` from now on, whatever it has drawn."""
        for function, seed in self._seeds:
            function.set_attribute("rngSeed", (seed + steps * _SEEDS) % 2**31)

    def _given(self, batch):
        return {variable: batch[place] for place, variable in self._read}

    def compute(self, batch: Sequence[Any]) -> Tuple[float, List[Array]]:
        """Return (loss, gradients) without an update. CNTK's own are sums over the samples: its learner takes means."""
        gradients, losses = self.criterion.grad(
            self._given(batch), wrt=self.parameters, outputs=[self.criterion.output]
        )
        if len(self.parameters) == 1:
            # Of a single one it returns the array.
            gradients = {self.parameters[0]: gradients}
        return float(losses.mean()), [gradients[parameter] / float(len(losses)) for parameter in self.parameters]

    def loss(self) -> float:
        """The mean over the samples of the last step: of all ranks where gradients are shared, else of this one."""
        return float(self.trainer.previous_minibatch_loss_average)
