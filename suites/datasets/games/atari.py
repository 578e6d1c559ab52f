"""Games of the Atari 2600 by the Arcade Learning Environment (``ale-py``), seen as Mnih et al. see them.

A dataset's folder has the emulator, ``ale_py``, as its wheel installs it, and the game, ``<game>.bin``: so every
framework's interpreter plays by the same one, and none needs it installed. ``write`` makes such a folder.

Of an agent step an action is repeated for all frames; its image is the greater of the last two, for some objects are
drawn in every other frame; it is grey, and averaged to a square. A game begins with up to ``MOST_IDLE`` steps of no
action. Source: Mnih et al., "Human-level control through deep reinforcement learning", 2015, methods.
"""

import importlib
import os
import shutil
import sys
from typing import Any, Optional, Tuple

from suites.datasets.games import FRAMES, Opener
from suites.datasets.games import write as write_game
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array

MOST_IDLE = 30
# Half an hour at 60 frames a second, after which a game is over: Bellemare et al., "The Arcade Learning Environment",
# 2013, had 5 minutes; ale-py's own environments, and most since, this.
MOST_FRAMES = 108000
# Of A3C, in all of its sizes.
MOST_ACTIONS = 6
_SUFFIX = ".bin"
_PACKAGE = "ale_py"


class Atari(object):
    """One game; ``emulator``: the module, ``path``: of the game's own file."""

    def __init__(self, emulator: Any, path: str, side: int, actions: int, seed: int) -> None:
        import numpy

        self._generator = numpy.random.RandomState(seed)
        self._side = side
        emulator.ALEInterface.setLoggerMode(emulator.LoggerMode.Error)
        self._machine = emulator.ALEInterface()
        self._machine.setInt("random_seed", seed % 2**31)
        self._machine.setFloat("repeat_action_probability", 0.0)
        self._machine.setInt("max_num_frames_per_episode", MOST_FRAMES)
        known = _loaded(self._machine, path, actions)
        # What a game has no action for does nothing.
        self._actions = known + [emulator.Action.NOOP] * (actions - len(known))

    def begin(self) -> Array:
        self._machine.reset_game()
        for _ in range(self._generator.randint(MOST_IDLE + 1)):
            self._machine.act(self._actions[0])
        return self._image(self._machine.getScreenGrayscale())

    def step(self, action: int) -> Tuple[Array, float, bool]:
        import numpy

        reward, seen = 0.0, []
        for frame in range(FRAMES):
            reward += self._machine.act(self._actions[action])
            if frame >= FRAMES - 2:
                seen.append(self._machine.getScreenGrayscale())
        return self._image(numpy.maximum(*seen)), reward, bool(self._machine.game_over(with_truncation=True))

    def _image(self, screen_HW):
        import numpy
        from PIL import Image

        return numpy.asarray(Image.fromarray(screen_HW).resize((self._side, self._side), Image.BOX))


def opener(root: Optional[str], side: int, actions: int) -> Opener:
    """See ``suites.datasets.games``.

    Raises:
        TrainerError: ``setup_failed``, the folder has no game or no emulator, or the game is none that it knows.
    """
    assert root is not None
    path, emulator = rom(root), _emulator(root)
    refuse_unknown(emulator, path)

    def opened(seed: int) -> Any:
        return Atari(emulator, path, side, actions, seed)

    return opened


def rom(folder: str) -> str:
    """Return the path of the one game in ``folder``.

    Raises:
        TrainerError: ``setup_failed``, there is none, or there are several.
    """
    try:
        found = sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIX))
    except OSError as error:
        raise TrainerError("setup_failed", "cannot read the game: %s" % error)
    if len(found) != 1:
        told = "%s has %s: it needs one game, <game>%s, as the emulator names it"
        raise TrainerError("setup_failed", told % (folder, ", ".join(found) or "no game", _SUFFIX))
    return os.path.join(folder, found[0])


def refuse_unknown(emulator: Any, path: str) -> None:
    """Refuse what is no game of the emulator's.

    Raises:
        TrainerError: ``setup_failed``; the message names the file.
    """
    if emulator.ALEInterface.isSupportedROM(path) is None:
        told = "%s is no game that ale-py %s knows, by its contents: is the file whole, and one of the Atari 2600's?"
        raise TrainerError("setup_failed", told % (path, emulator.__version__))


def refuse_unplayable(emulator: Any, path: str) -> None:
    """Refuse what no network of the suite can play.

    Raises:
        TrainerError: ``setup_failed``; it is unknown, or needs more actions; the message names the file.
    """
    refuse_unknown(emulator, path)
    emulator.ALEInterface.setLoggerMode(emulator.LoggerMode.Error)
    _loaded(emulator.ALEInterface(), path, MOST_ACTIONS)


def _loaded(machine, path, actions):
    """Load a game; return its actions, ``actions`` at most."""
    machine.loadROM(path)
    known = list(machine.getMinimalActionSet())
    if len(known) > actions:
        told = "%s needs %d actions, and the network has %d"
        raise TrainerError("setup_failed", told % (path, len(known), actions))
    return known


def write(root: str, path: Optional[str] = None) -> str:
    """Write the folder of a game, the file ``path`` or Pong, with the emulator that this interpreter has; return the
    emulator's version.

    Raises:
        TrainerError: ``setup_failed``, the game is unknown.
    """
    import ale_py
    from ale_py import roms

    path = path or str(roms.get_rom_path("pong"))
    refuse_unknown(ale_py, path)
    package = os.path.dirname(os.path.abspath(ale_py.__file__))
    beside = [_PACKAGE + ".libs", "%s-%s.dist-info" % (_PACKAGE, ale_py.__version__)]
    for name in [_PACKAGE, *beside]:
        source = os.path.join(os.path.dirname(package), name)
        if os.path.isdir(source):
            ignored = shutil.ignore_patterns(
                "roms", "__pycache__", "*.pyi", "env.py", "vector_env.py", "INSTALLER", "RECORD"
            )
            shutil.copytree(source, os.path.join(root, name), ignore=ignored)
    shutil.copyfile(path, os.path.join(root, os.path.basename(path)))
    write_game(root, "atari")
    return str(ale_py.__version__)


def _emulator(root):
    if root not in sys.path:
        sys.path.insert(0, root)
    try:
        return importlib.import_module("ale_py")
    except ImportError as error:
        told = "the emulator in %s cannot be used by %s: %s"
        raise TrainerError("setup_failed", told % (root, sys.executable, error))
