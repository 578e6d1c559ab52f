"""Two linear networks that are trained against each other as in WGAN-GP, small enough to be followed by hand.

A generator makes samples of noise, G(z) = z @ g; a critic judges samples, D(x) = x @ c. In a step the critic is updated
twice and then the generator once, each with a batch and an optimiser of its own:

    critic     mean D(G(z)) - mean D(x) + PENALTY * (|c| - 1)^2
    generator  - mean D(G(z))

The gradient of D by its input is c wherever it is taken: the penalty is that of Gulrajani et al., "Improved Training of
Wasserstein GANs", 2017. How it must go is computed here in double precision, apart from any framework.
"""

SAMPLES, NOISE, FEATURES = 8, 3, 4
CRITIC_TIMES = 2
PENALTY = 10.0
# Three batches a step, none of which comes again in the steps of a test.
BATCHES = 16
RULES = {
    "critic": {"name": "adam", "learning_rate": 0.05, "betas": [0.5, 0.9]},
    "generator": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9},
}


def facts():
    """Return what the facts of a model would say, beside those of any other."""
    return {"module": "tests.support.two_networks", "input": None, "optimizer": RULES}


def described(arrays):
    """Return {name: array} of an array for each network, or of its transpose."""
    g, c = arrays
    return {"g": g if len(g) == NOISE else g.T, "c": c if len(c) == FEATURES else c.T}


def weights():
    """Return the initial (g, c), float32."""
    import numpy

    g = numpy.linspace(-0.5, 0.6, NOISE * FEATURES).reshape(NOISE, FEATURES)
    c = numpy.linspace(0.9, -0.4, FEATURES).reshape(FEATURES, 1)
    return g.astype(numpy.float32), c.astype(numpy.float32)


def batch(number, world_size, rank):
    """Return (samples, noise), float32, of the ``number``-th batch of ``rank``."""
    import numpy

    generator = numpy.random.RandomState(100 + number % BATCHES)
    x, z = generator.standard_normal((SAMPLES, FEATURES)) + 0.5, generator.standard_normal((SAMPLES, NOISE))
    return tuple(array[rank::world_size].astype(numpy.float32) for array in (x, z))


def batches(job, rank, to_tensors):
    """Yield (tensors, work) without an end."""
    number = 0
    while True:
        arrays = batch(number, job.world_size, rank)
        yield to_tensors(arrays), {"images": len(arrays[0])}
        number += 1


def slopes():
    """Return (the first critic's loss, {name: gradient}): of c by the first batch, of g by the second."""
    import numpy

    g, c = (array.astype(float) for array in weights())
    (x, z), (_, later) = (batch(number, 1, 0) for number in (0, 1))
    loss, by_c = _critic(g, c, x.astype(float), z.astype(float))
    return loss, {"c": by_c, "g": -numpy.outer(later.astype(float).mean(0), c[:, 0])}


def _critic(g, c, x, z):
    """Return the critic's loss and its gradient by c."""
    import numpy

    length = numpy.linalg.norm(c)
    away = (z @ g).mean(0) - x.mean(0)
    loss = float(away @ c[:, 0] + PENALTY * (length - 1.0) ** 2)
    return loss, away[:, None] + 2.0 * PENALTY * (length - 1.0) * c / length


def trained(steps):
    """Return (the losses of the critic's last update in each of ``steps``, {name: what it has become})."""
    import numpy

    from workers.trainer.base import optimizer

    g, c = (array.astype(float) for array in weights())
    update_g = _Rule(optimizer.complete(RULES["generator"]))
    update_c = _Rule(optimizer.complete(RULES["critic"]))
    told, number = [], 0
    for _ in range(steps):
        for _ in range(CRITIC_TIMES):
            loss, gradient = _critic(g, c, *(array.astype(float) for array in batch(number, 1, 0)))
            number += 1
            c = update_c(c, gradient)
        told.append(loss)
        _, z = (array.astype(float) for array in batch(number, 1, 0))
        number += 1
        g = update_g(g, -numpy.outer(z.mean(0), c[:, 0]))
    return told, {"g": g, "c": c}


class _Rule:
    """torch.optim.SGD's and Adam's documented algorithms, for one array."""

    def __init__(self, rule):
        self._rule = rule
        self._steps = 0
        self._first = self._second = 0.0

    def __call__(self, value, gradient):
        rule = self._rule
        self._steps += 1
        if rule["name"] == "sgd":
            self._first = rule["momentum"] * self._first + gradient
            return value - rule["learning_rate"] * self._first
        first, second = rule["betas"]
        self._first = first * self._first + (1 - first) * gradient
        self._second = second * self._second + (1 - second) * gradient**2
        root = (self._second / (1 - second**self._steps)) ** 0.5 + rule["epsilon"]
        return value - rule["learning_rate"] * self._first / (1 - first**self._steps) / root
