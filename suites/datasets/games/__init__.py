"""Games that a network plays: real ones by an emulator, a small one, and images without any game.

A game has

``begin()``
    begins anew; returns image_HW, uint8, of the side that it was opened for
``step(action)``
    carries out one of the network's actions for an agent step, which is ``FRAMES`` frames long; returns (image_HW,
    reward, whether the game is over). One that is over is begun anew before it is gone on with

A dataset of games is a folder with ``game.json``, {"game": a name in ``GAMES``}, and what that game needs beside it.
"""

import importlib
import json
import os
from typing import Any, Callable, Optional

from workers.trainer.base.failure import TrainerError

FILE = "game.json"
# Of an agent step: Mnih et al., "Human-level control through deep reinforcement learning", 2015, methods.
FRAMES = 4
# What ``game.json`` names -> its module here, with ``opener(root, side, actions)``.
GAMES = {"atari": "atari", "catch": "catch"}

# Makes a game, all whose chances are drawn by a seed.
Opener = Callable[[int], Any]


def opener(root: Optional[str], side: int, actions: int) -> Opener:
    """Return what opens the game of the dataset in ``root``; without one, images without an emulator.

    Args:
        side: pixels of the images, in height and width.
        actions: how many the network has.

    Raises:
        TrainerError: ``setup_failed``, there is no such game, or it cannot be played here; the message names the file.
    """
    if root is None:
        return _module("noise").opener(root, side, actions)
    path = os.path.join(root, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            name = json.load(file)["game"]
        module = GAMES[name]
    except (OSError, ValueError, TypeError) as error:
        raise TrainerError("setup_failed", "cannot read which game is played from %s: %s" % (path, error))
    except KeyError as error:
        told = "%s names no game that is known here (%s): known are %s"
        raise TrainerError("setup_failed", told % (path, error, ", ".join(sorted(GAMES))))
    return _module(module).opener(root, side, actions)


def write(root: str, name: str) -> None:
    """Write which game is played in ``root``."""
    with open(os.path.join(root, FILE), "w", encoding="utf-8") as file:
        json.dump({"game": name}, file)


def _module(name):
    return importlib.import_module("suites.datasets.games." + name)
