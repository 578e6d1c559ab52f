"""The update of weights in PyTorch, by the rules of ``workers.trainer.base.optimizer``."""

from typing import Iterable

import torch

from workers.trainer.base import optimizer as rules
from workers.trainer.base.signatures import Rule


def make(rule: Rule, parameters: Iterable[torch.Tensor], fused: bool = False) -> torch.optim.Optimizer:
    """Return the optimiser of ``parameters``. ``fused``: it updates all in one kernel; else PyTorch chooses."""
    groups = _groups(rule, list(parameters))
    facts = {"lr": rule["learning_rate"], "fused": fused or None}
    if rule["name"] == "sgd":
        return torch.optim.SGD(groups, momentum=rule["momentum"], **facts)
    kind = torch.optim.AdamW if rule["name"] == "adamw" else torch.optim.Adam
    return kind(groups, betas=tuple(rule["betas"]), eps=rule["epsilon"], **facts)


def _groups(rule, parameters):
    """Return PyTorch's groups of parameters, one for each weight decay there is, in the order of the network."""
    decays = [rules.weight_decay(rule, parameter.dim()) for parameter in parameters]
    return [
        {"params": [one for one, own in zip(parameters, decays) if own == decay], "weight_decay": decay}
        for decay in sorted(set(decays), reverse=True)
    ]


class Schedule(object):
    """Sets the rate of each step, where it is not always the same."""

    def __init__(self, rule: Rule, optimizer: torch.optim.Optimizer) -> None:
        self._rule = rule
        self._optimizer = optimizer
        self.steps = 0

    def __call__(self) -> None:
        """To be called before each update."""
        if rules.is_constant(self._rule):
            return
        self.steps += 1
        for group in self._optimizer.param_groups:
            group["lr"] = rules.rate(self._rule, self.steps)
