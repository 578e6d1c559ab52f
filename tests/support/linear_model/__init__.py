"""A model without batch normalisation, so that two ranks must train exactly as one with the double batch does.

A linear fit of 8 numbers on a global batch of 8 samples, dealt to the ranks in turn; the same batch at every step. How
it must go is computed here in double precision, apart from any framework.
"""

SAMPLES = 8
FEATURES = 8
OPTIMIZER = {"learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.01}


def rule(job):
    """Return the facts of the optimiser."""
    return job.model.facts.get("rule", OPTIMIZER)


def samples(world_size, rank):
    """Return (inputs, targets), float32, of the samples that ``rank`` of so many trains on."""
    import numpy

    generator = numpy.random.RandomState(3)
    inputs = generator.standard_normal((SAMPLES, FEATURES)).astype(numpy.float32)
    targets = generator.standard_normal((SAMPLES, 1)).astype(numpy.float32)
    return inputs[rank::world_size], targets[rank::world_size]


def weights():
    """Return the initial weights, float32."""
    import numpy

    return numpy.linspace(-1.0, 1.0, FEATURES).reshape(FEATURES, 1).astype(numpy.float32)


def losses(steps, facts=None):
    """Return the losses over all samples before each of ``steps`` updates by ``facts``, those of an optimiser.

    torch.optim.SGD's, Adam's and AdamW's documented algorithms. The number of ranks changes nothing.
    """
    import numpy

    from workers.trainer.base import optimizer

    rule = optimizer.complete(facts or OPTIMIZER)
    inputs, targets = samples(1, 0)
    found = weights().astype(float)
    momentum = mean = square = numpy.zeros_like(found)
    told = []
    for step in range(1, steps + 1):
        rate, decay = optimizer.rate(rule, step), rule["weight_decay"]
        told.append(float(numpy.mean((inputs @ found - targets) ** 2)))
        gradient = 2.0 * inputs.T @ (inputs @ found - targets) / len(inputs)
        if rule["gradient_norm_limit"] is not None:
            norm = numpy.sqrt((gradient**2).sum())
            gradient = gradient * min(1.0, rule["gradient_norm_limit"] / (norm + 1e-6))
        if rule["name"] == "adamw":
            found = found * (1.0 - rate * decay)
        else:
            gradient = gradient + decay * found
        if rule["name"] == "sgd":
            momentum = rule["momentum"] * momentum + gradient
            found = found - rate * momentum
            continue
        first, second = rule["betas"]
        mean, square = first * mean + (1 - first) * gradient, second * square + (1 - second) * gradient**2
        root = numpy.sqrt(square / (1 - second**step)) + rule["epsilon"]
        found = found - rate * mean / (1 - first**step) / root
    return told
