"""Cells on machines whose truth is known: what the rules for cells are measured on. Seeded by the caller.

A generator has the arguments (rng, shape) with shape = (experiments, cells, runs, intervals), and returns

    times   relative time per unit of work, of that shape; 1 is the level of a machine without noise
    truth   what a cell's mean time should be: a number, or one per experiment
    long    the long-run mean of the machine where that is something else than ``truth``; else None

Runs are carried out one after another, in blocks of one run of every cell in an order drawn anew; a run takes
``START_UP`` intervals of time before its first. Noise has a standard deviation of 1 before it is scaled.
"""

import json
from functools import partial
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

NOISE = 0.03  # of an interval
PROCESS = 0.015  # between fresh processes
INTERVAL_S = 0.1
START_UP = 30  # intervals: 3 s
BURN_IN = 60
RECORDED = Path(__file__).parent / "noise"


def white(rng, shape):
    return rng.standard_normal(shape)


def autoregressive(rng, shape, phi):
    noise = rng.standard_normal((*shape[:-1], shape[-1] + BURN_IN)) * np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise)[..., BURN_IN:]


def skewed(rng, shape):
    """ARMA(2, 1) with correlation that dies slowly, of gamma noise."""
    noise = rng.gamma(4.0, 1.0, (*shape[:-1], shape[-1] + BURN_IN)) - 4.0
    return lfilter([1.0, 0.4], [1.0, -0.5, -0.15], noise)[..., BURN_IN:] / 4.06


def heavy_tails(rng, shape):
    """Student's t with three degrees of freedom."""
    return rng.standard_t(3, shape) / np.sqrt(3)


def level(rng, shape, noise=white, process=PROCESS, bimodal=False):
    """A level machine with processes that differ: normally, or half of them one deviation faster, half slower."""
    own = rng.choice([-1.0, 1.0], shape[:3]) if bimodal else rng.standard_normal(shape[:3])
    return (1 + process * own[..., None]) * (1 + NOISE * noise(rng, shape)), 1.0, None


def warm_up(rng, shape, size, process=PROCESS, fold=8.0):
    """The beginning of each run is slower by ``size``, and that dies with e-fold ``fold`` intervals."""
    times, truth, _ = level(rng, shape, process=process)
    return times * (1 + size * np.exp(-np.arange(shape[-1]) / fold)), truth, None


def spikes(rng, shape, share=0.03, process=PROCESS):
    """Some intervals take twice as long on average (exponential)."""
    times, _, _ = level(rng, shape, process=process)
    return times + (rng.random(shape) < share) * rng.exponential(1.0, shape), 1.0 + share, None


def rare_mode(rng, shape, share=0.2, slower=0.125):
    """One process in five is slower for life."""
    times, _, _ = level(rng, shape)
    return times * (1 + slower * (rng.random(shape[:3]) < share))[..., None], 1.0 + share * slower, None


def levels(rng, shape, seconds, size=0.07):
    """The machine changes between two levels that last ``seconds`` on average, whatever runs on it."""
    times, _, _ = level(rng, shape)
    state = np.cumsum(rng.random((shape[0], _slots(shape))) < INTERVAL_S / seconds, axis=1)
    state = 1 + size * ((state + rng.integers(0, 2, (shape[0], 1))) % 2 - 0.5)
    return times * _seen(rng, state, shape), state.mean(axis=1), 1.0


def drift(rng, shape, size=0.05):
    """The machine gets slower by ``size`` over the experiment, for all alike."""
    times, _, _ = level(rng, shape)
    state = np.broadcast_to(np.linspace(1 - size / 2, 1 + size / 2, _slots(shape)), (shape[0], _slots(shape)))
    return times * _seen(rng, state, shape), 1.0, None


def one_noisy(rng, shape):
    """The first cell's processes differ by 5 %, those of all others by 0.1 %."""
    times, truth, _ = level(rng, shape, process=0.001)
    times[:, 0] *= 1 + 0.05 * rng.standard_normal((shape[0], shape[2], 1))
    return times, truth, None


def spikes_in_one(rng, shape):
    """Only the first cell has spikes; its mean is what the others have."""
    times, truth, _ = level(rng, shape)
    times[:, 0] = spikes(rng, (shape[0], 1, *shape[2:]))[0][:, 0] / 1.03
    return times, truth, None


def recorded(rng, shape, name="solo"):
    """Recorded processes, drawn anew with replacement, each from its first step on."""
    found = json.loads((RECORDED / f"{name}.json").read_text())["step_s"]
    level = 1 / np.mean([1 / np.mean(row) for row in found])
    rows = np.array([row[: shape[-1]] for row in found]) / level
    return rows[rng.integers(0, len(rows), shape[:3])], 1.0, None


def _slots(shape):
    return shape[1] * shape[2] * (START_UP + shape[3])


def _seen(rng, state, shape):
    """What of the machine's state (experiments, slots) each run sees, by its place in its block."""
    experiments, cells, runs, n = shape
    order = np.argsort(rng.random((experiments, runs, cells)), axis=2)
    by_place = state.reshape(experiments, runs, cells, START_UP + n)[..., START_UP:]
    return np.take_along_axis(by_place, order[..., None], axis=2).swapaxes(1, 2)


# what is promised: name -> generator
PROMISED = {
    "white": level,
    "AR(1) 0.4": partial(level, noise=partial(autoregressive, phi=0.4)),
    "AR(1) 0.8": partial(level, noise=partial(autoregressive, phi=0.8)),
    "skewed": partial(level, noise=skewed),
    "heavy tails": partial(level, noise=heavy_tails),
    "warm-up +10 %": partial(warm_up, size=0.10),
    "warm-up +50 %": partial(warm_up, size=0.50),
    "warm-up +10 %, processes 0.1 %": partial(warm_up, size=0.10, process=0.001),
    "warm-up +50 %, processes 0.1 %": partial(warm_up, size=0.50, process=0.001),
    "processes 0.1 %": partial(level, process=0.001),
    "processes 0.5 %": partial(level, process=0.005),
    "processes 5 %": partial(level, process=0.05),
    "processes 0.5 %, bimodal": partial(level, process=0.005, bimodal=True),
    "processes 5 %, bimodal": partial(level, process=0.05, bimodal=True),
    "recorded: one at a time": recorded,
    "recorded: two at a time": partial(recorded, name="both"),
}
SPIKES = {"spikes in 3 %": spikes, "spikes in 3 %, processes 0.1 %": partial(spikes, process=0.001)}
RARE = {"rare mode": rare_mode}
MOVING = {
    "levels of 2 s": partial(levels, seconds=2.0),
    "levels of 10 s": partial(levels, seconds=10.0),
    "levels of 30 s": partial(levels, seconds=30.0),
    "levels of 120 s": partial(levels, seconds=120.0),
    "drift of 5 %": drift,
}
UNEQUAL = {"one cell noisy, the others quiet": one_noisy}
