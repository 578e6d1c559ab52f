"""Series of nights whose truth is known: what the regression gate is measured on. Seeded by the caller.

A generator has the arguments (rng, shape) with shape = (series, nights), and returns the logarithms of the nights' mean
rates around a level of 0, in standard deviations of a night (``NOISE`` of the rate). Nothing happens in them.
"""

import json

import numpy as np
from scipy.signal import lfilter

from bench import held_out_cells
from bench.machines import RECORDED, autoregressive

NOISE = 0.005  # of a night: the standard deviation of its logarithm
RUNS = 6  # of a night
PER_NODE = 25  # series
STEPS = 60  # of a recorded process


def gaussian(rng, shape):
    return rng.standard_normal(shape)


def heavy_tails(rng, shape):
    """Student's t with three degrees of freedom."""
    return rng.standard_t(3, shape) / np.sqrt(3)


def remembering(phi):
    """AR(1): nights resemble the nights before."""
    return lambda rng, shape: autoregressive(rng, shape, phi)


def outliers(rng, shape, share=0.03, size=8.0):
    """Some nights are slower by ``size`` deviations on average (exponential)."""
    return gaussian(rng, shape) - (rng.random(shape) < share) * rng.exponential(size, shape)


def shocks(rng, shape, share=0.02, size=8.0):
    """Half of the noise is that of the node, which has bad nights for all of its series."""
    nodes = (-(-shape[0] // PER_NODE), shape[1])
    common = gaussian(rng, nodes) / np.sqrt(2) - (rng.random(nodes) < share) * rng.exponential(size, nodes)
    return common.repeat(PER_NODE, axis=0)[: shape[0]] + gaussian(rng, shape) / np.sqrt(2)


def processes(rng, shape):
    """Three processes a night, each of one of two kinds."""
    return rng.choice([-1.0, 1.0], (*shape, 3)).mean(axis=-1) * np.sqrt(3)


def recorded(rng, shape):
    """Six recorded processes a night, drawn anew, from a step on that is drawn too."""
    means = np.log(_stretches("solo"))
    found = means[rng.integers(0, len(means), (*shape, RUNS))].mean(axis=-1)
    return (found.mean() - found) / (means.std() / np.sqrt(RUNS))


def held_out(rng, shape):
    """Kept out of the tuning: GARCH(1,1) of skewed shocks, ARMA(1, 1) memory, both drawn anew for each series."""
    return np.stack([-held_out_cells._noise(rng, (1, 1, shape[1]))[0, 0] for _ in range(shape[0])])


def held_out_autoregressive(rng, shape):
    """Kept out of the tuning: AR(2) with a pseudo-period of about a week, Laplace shocks."""
    shocks = rng.laplace(0.0, np.sqrt(0.5), (shape[0], shape[1] + 60))
    found = lfilter([1.0], [1.0, -0.5, 0.3], shocks)[:, 60:]
    return found / found.std()


def ramps(rng, shape):
    """(Gaussian nights that get slower from a night on, by 2 to 6 % over 20 to 40 nights; when each begins)."""
    begins = rng.integers(10, 21, shape[0])
    slope = rng.uniform(0.02, 0.06, shape[0]) / NOISE / rng.uniform(20.0, 40.0, shape[0])
    risen = np.maximum(np.arange(shape[1])[None, :] - begins[:, None], 0)
    return gaussian(rng, shape) - slope[:, None] * risen, begins


def _stretches(name):
    """Mean seconds of a step of each stretch of each recorded process."""
    rows = json.loads((RECORDED / f"{name}.json").read_text())["step_s"]
    return np.array([np.mean(row[at : at + STEPS]) for row in rows for at in range(0, len(row) - STEPS, STEPS)])


QUIET = {"Gaussian": gaussian}
OTHERS = {
    "t, 3 degrees": heavy_tails,
    "AR(1) 0.3": remembering(0.3),
    "AR(1) 0.5": remembering(0.5),
    "3 % bad nights": outliers,
    "bad nights of a node": shocks,
    "processes of two kinds": processes,
    "recorded processes": recorded,
}
HELD_OUT = {"held out: volatile, ARMA(1, 1)": held_out, "held out: weekly, Laplace": held_out_autoregressive}
KINDS = {**QUIET, **OTHERS, **HELD_OUT}
