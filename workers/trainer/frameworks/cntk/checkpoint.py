"""What a checkpoint keeps of a training in CNTK, as named arrays; a file of CNTK's own is an array of its bytes.

On one device, of each update N: ``model/N`` and ``trainer/N``, the files of ``Trainer.save_checkpoint``: weights and
running statistics, the learner's state, and how far dropout's generators have drawn.

With several ranks all of them would have to call that at once, and a checkpoint is rank 0's alone. There it has
``weights/NAME`` and ``statistics/NAME`` of the network and ``learner/N``, the file of the learner's own state.
Dropout's generators, of which each rank has its own, cannot be read so: see ``Minimizer.reseed``.

Both have ``steps/N``, for how many steps a rate was set.
"""

import contextlib
import os
import tempfile
from typing import Any, Dict, Optional, Sequence

import cntk
import numpy

from workers.trainer.base.signatures import Array, Arrays


def taken(network: Any, minimizers: Sequence[Any], alone: bool, folder: Optional[str]) -> Dict[str, Array]:
    """Return {name: array} of everything; ``alone``: on one device; ``folder``: where CNTK's files may lie meanwhile.

    Raises:
        OSError: there is no room for CNTK's files.
    """
    found = {} if alone else {name: node.value for name, node in _nodes(network)}
    for number, one in enumerate(minimizers):
        found["steps/%d" % number] = numpy.array(one.steps, dtype=numpy.int64)
        with _files(folder, number) as files:
            try:
                if alone:
                    one.trainer.save_checkpoint(files["model"])
                else:
                    one.learner.create_checkpoint().save(files["learner"])
            except RuntimeError as error:
                raise OSError("CNTK cannot write its own checkpoint: %s" % str(error).split("[CALL STACK]")[0].strip())
            for kind, path in files.items():
                if os.path.exists(path):
                    found["%s/%d" % (kind, number)] = numpy.fromfile(path, dtype=numpy.uint8)
    return found


def given(network: Any, minimizers: Sequence[Any], alone: bool, folder: Optional[str], arrays: Arrays) -> None:
    """Take what ``taken`` has returned, in place.

    Raises:
        KeyError, RuntimeError, ValueError: it is of another network.
    """
    if not alone:
        for name, node in _nodes(network):
            node.value = arrays[name]
    for number, one in enumerate(minimizers):
        one.steps = int(arrays["steps/%d" % number])
        with _files(folder, number) as files:
            for kind in ("model", "trainer") if alone else ("learner",):
                arrays["%s/%d" % (kind, number)].tofile(files[kind])
            if alone:
                one.trainer.restore_from_checkpoint(files["model"])
            else:
                one.learner.restore_from_checkpoint(cntk.cntk_py.Dictionary.load(files["learner"]))


@contextlib.contextmanager
def _files(above, number):
    """Paths by kind, in a folder of their own: CNTK leaves what was longer in a file before."""
    with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=above) as folder:
        model = os.path.join(folder, "model-%d" % number)
        # CNTK puts a trainer's state beside the model, by this name.
        yield {"model": model, "trainer": model + ".ckp", "learner": os.path.join(folder, "learner-%d" % number)}


def _nodes(network):
    """Yield (name, parameter or constant) of all that changes. How many samples the running statistics have seen is
    left out: CNTK asks only whether it is 0, which it never is here."""
    for name, parameter in network.variables.items():
        yield "weights/" + name, parameter
    for norm, pair in network.statistics.items():
        for name, constant in zip(("running_mean", "running_var"), pair):
            yield "statistics/%s.%s" % (norm, name), constant
