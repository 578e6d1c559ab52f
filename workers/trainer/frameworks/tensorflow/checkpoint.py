"""What a checkpoint keeps of a training in TensorFlow, as named arrays.

``weights/I`` and ``statistics/NAME`` of the model; of each update ``optimizer/N/S/I``, the state of its optimiser for
the variable I, ``steps/N``, and ``scaler/N``, how the loss is scaled. What is dropped is drawn by the step.

Where a process drives several ranks, each of these variables is several: what is kept is that of its first rank, and
each rank is given it. The running statistics, which are each rank's own, are then those of rank 0 everywhere, who alone
evaluates.
"""

from typing import Any, Dict, Iterator, Sequence, Tuple

import numpy
import tensorflow as tf

from workers.trainer.base.signatures import Array, Arrays
from workers.trainer.frameworks.tensorflow.minimizer import wide


def taken(model: Any, minimizers: Sequence[Any], strategy: Any) -> Dict[str, Array]:
    """Return {name: array} of everything; bfloat16 is widened to single precision, which holds all of its numbers."""
    found = {name: wide(strategy.of_ranks(variable)[0]) for name, variable in _variables(model, minimizers)}
    for number, minimizer in enumerate(minimizers):
        found["steps/%d" % number] = numpy.array(minimizer.optimizer.steps, dtype=numpy.int64)
    return found


def given(model: Any, minimizers: Sequence[Any], strategy: Any, arrays: Arrays) -> None:
    """Take what ``taken`` has returned, in place.

    Raises:
        KeyError, ValueError: it is of another network.
    """
    for name, variable in _variables(model, minimizers):
        for own in strategy.of_ranks(variable):
            own.assign(tf.cast(arrays[name], own.dtype))
    for number, minimizer in enumerate(minimizers):
        minimizer.optimizer.steps = int(arrays["steps/%d" % number])


def _variables(model: Any, minimizers: Sequence[Any]) -> Iterator[Tuple[str, tf.Variable]]:
    for index, variable in enumerate(model.variables):
        yield "weights/%d" % index, variable
    for norm, pair in model.network.statistics.items():
        for name, variable in zip(("running_mean", "running_var"), pair):
            yield "statistics/%s.%s" % (norm, name), variable
    for number, minimizer in enumerate(minimizers):
        for slot, variables in enumerate(minimizer.optimizer.slots):
            for index, variable in enumerate(variables):
                yield "optimizer/%d/%d/%d" % (number, slot, index), variable
        for index, variable in enumerate(minimizer.scaling):
            yield "scaler/%d/%d" % (number, index), variable
