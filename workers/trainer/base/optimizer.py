"""How weights are updated: what a model's ``[optimizer]`` says, for the batch of a job, and the rate of each step.

A rule is {name, learning_rate, momentum, betas, epsilon, weight_decay, decay_vectors, gradient_norm_limit,
warmup_steps, decay, decay_steps}. All frameworks update by the same equations, those that PyTorch documents:

``sgd``
    with momentum; the decay is added to the gradient (torch.optim.SGD)
``adam``
    Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015; the decay is added to the gradient
``adamw``
    Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019: the decay is taken from the weights

Where a rule has a ``gradient_norm_limit``, the gradients of all weights of an update, averaged over the ranks, are
multiplied by limit / (their norm together + ``NORM_EPSILON``) before anything else, unless that is more than 1
(Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks", 2013;
torch.nn.utils.clip_grad_norm_).
"""

import math
from typing import Any, Dict, Mapping, Optional

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Rule

NAMES = ("sgd", "adam", "adamw")
DECAYS = ("constant", "linear", "cosine", "inverse-sqrt")

# What clip_grad_norm_ adds to the norm.
NORM_EPSILON = 1e-6

DEFAULTS = {
    "name": "sgd",
    "momentum": 0.0,
    # Kingma and Ba, section 2.
    "betas": (0.9, 0.999),
    "epsilon": 1e-8,
    "weight_decay": 0.0,
    # Whether weights with one axis decay, such as biases and what normalisations scale by. Devlin et al. ("BERT", 2019)
    # and Brown et al. (GPT-3) leave them out.
    "decay_vectors": True,
    # None: whatever the norm is.
    "gradient_norm_limit": None,
    # Steps in which the rate rises to its height.
    "warmup_steps": 0,
    "decay": "constant",
    # The step at which the rate is 0 (linear, cosine).
    "decay_steps": None,
}


def of_job(job: Job, name: Optional[str] = None) -> Dict[str, Any]:
    """Return the rule of the job's model; of its table ``[optimizer.<name>]``, where it has several.

    Where the facts name ``learning_rate_samples`` the rate is for a global batch of so many, and in proportion for
    others; where they name ``learning_rate_most_scale`` it is raised so many times at most. Goyal et al. ("Accurate,
    Large Minibatch SGD", 2017, sections 2.1 and 2.2) raise it in proportion after a warm-up that begins at the rate of
    the reference batch and lasts five epochs. A benchmark is over long before that.

    Raises:
        TrainerError: ``setup_failed``, the facts name what is not known here.
    """
    facts = job.model.optimizer or {}
    facts = dict(facts if name is None else facts[name])
    reference = facts.pop("learning_rate_samples", None)
    most = facts.pop("learning_rate_most_scale", None)
    if reference is not None:
        scale = job.plan.per_device_batch_size * job.world_size / float(reference)
        facts["learning_rate"] = facts["learning_rate"] * (scale if most is None else min(scale, most))
    return complete(facts)


def changed(facts: Mapping[str, Any], **numbers: float) -> Dict[str, Any]:
    """Return the facts of an optimiser, or of each of several, with ``numbers`` in the place of their own."""
    several = {name: dict(one, **numbers) for name, one in facts.items() if isinstance(one, dict)}
    return several or dict(facts, **numbers)


def complete(facts: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the rule of ``facts``, with the defaults for what they leave out.

    Raises:
        TrainerError: ``setup_failed``, they name what is not known here.
    """
    rule = dict(DEFAULTS, **facts)
    unknown = sorted(set(facts) - set(DEFAULTS) - {"learning_rate"})
    if unknown:
        raise TrainerError("setup_failed", "an optimiser has no %s" % ", ".join(unknown))
    for key, offered in (("name", NAMES), ("decay", DECAYS)):
        if rule[key] not in offered:
            told = "an optimiser's %s is one of %s, not %s"
            raise TrainerError("setup_failed", told % (key, ", ".join(offered), rule[key]))
    if rule["decay"] in ("linear", "cosine") and not rule["decay_steps"]:
        raise TrainerError("setup_failed", "an optimiser's decay %s needs decay_steps" % rule["decay"])
    if rule["decay"] == "inverse-sqrt" and not rule["warmup_steps"]:
        raise TrainerError("setup_failed", "an optimiser's decay inverse-sqrt needs warmup_steps")
    return rule


def weight_decay(rule: Rule, axes: int) -> float:
    """Return the decay of weights with so many axes."""
    return rule["weight_decay"] if rule["decay_vectors"] or axes > 1 else 0.0


def is_constant(rule: Rule) -> bool:
    """Whether the rate is the same at all steps."""
    return not rule["warmup_steps"] and rule["decay"] == "constant"


def rate(rule: Rule, step: int) -> float:
    """Return the learning rate of ``step``, counted from 1.

    It rises in proportion to the step for ``warmup_steps``. Then it stays, falls to nothing at ``decay_steps`` along a
    line or half a cosine, or falls with the square root of the step (Vaswani et al., "Attention Is All You Need", 2017,
    section 5.3).
    """
    height, warmup = rule["learning_rate"], rule["warmup_steps"]
    if step <= warmup:
        return height * step / float(warmup)
    if rule["decay"] == "constant":
        return height
    if rule["decay"] == "inverse-sqrt":
        return height * math.sqrt(warmup / float(step))
    passed = min(1.0, (step - warmup) / float(rule["decay_steps"] - warmup))
    return height * (1.0 - passed if rule["decay"] == "linear" else 0.5 * (1.0 + math.cos(math.pi * passed)))
