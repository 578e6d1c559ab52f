"""A model without batch normalisation, so that two ranks must train exactly as one with the double batch does.

A linear fit of 8 numbers on a global batch of 8 samples, dealt to the ranks in turn; the same batch at every step.
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
