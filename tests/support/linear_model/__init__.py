"""A model without batch normalisation, so that two ranks must train exactly as one with the double batch does.

A linear fit of 8 numbers on a global batch of 8 samples, dealt to the ranks in turn; the same batch at every step. How
it must go is computed here in double precision, apart from any framework.
"""

SAMPLES = 8
FEATURES = 8
OPTIMIZER = {"learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.01}


def samples(job, rank):
    """Return (inputs, targets), float32, of the samples that ``rank`` trains on."""
    import numpy

    generator = numpy.random.RandomState(3)
    inputs = generator.standard_normal((SAMPLES, FEATURES)).astype(numpy.float32)
    targets = generator.standard_normal((SAMPLES, 1)).astype(numpy.float32)
    return inputs[rank :: job["world_size"]], targets[rank :: job["world_size"]]


def weights():
    """Return the initial weights, float32."""
    import numpy

    return numpy.linspace(-1.0, 1.0, FEATURES).reshape(FEATURES, 1).astype(numpy.float32)


def fitted(steps):
    """Return the loss over all samples after each of ``steps`` steps, whatever number of ranks they are dealt to."""
    inputs, targets = samples({"world_size": 1}, 0)
    found, momentum, losses = weights().astype(float), 0.0, []
    for _ in range(steps):
        losses.append(float(((inputs @ found - targets) ** 2).mean()))
        found, momentum = stepped(found, momentum, inputs, targets, OPTIMIZER["learning_rate"])
    return losses


def stepped(found, momentum, inputs, targets, rate):
    """Return (weights, momentum) after one update on a batch: SGD with coupled weight decay (torch.optim.SGD)."""
    gradient = 2.0 * inputs.T @ (inputs @ found - targets) / len(inputs) + OPTIMIZER["weight_decay"] * found
    momentum = OPTIMIZER["momentum"] * momentum + gradient
    return found - rate * momentum, momentum
