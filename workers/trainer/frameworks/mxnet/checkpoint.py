"""What a checkpoint keeps of a training in MXNet, as named arrays.

``network/``: weights and running statistics; of each update ``optimizer/N/P/S``, the state S of its optimiser for the
parameter P, and ``steps/N``, how often it has updated. All are those of the first device: in the synchronous strategies
weights and optimiser are the same on all. Stores and servers add up gradients and keep nothing.

The generators that dropout draws from cannot be read (``mxnet.random`` has only ``seed``): see ``reseed``.
"""

from typing import Any, Dict, List, Sequence

import numpy

from workers.trainer.base.signatures import Array, Arrays
from workers.trainer.frameworks.mxnet.library import mx


def taken(network: Any, trainers: Sequence[Any]) -> Dict[str, Array]:
    """Return {name: array} of everything; ``trainers``: of Gluon, whose optimisers are in this process."""
    found = {name: parameter.list_data()[0].asnumpy() for name, parameter in _kept(network).items()}
    for number, trainer in enumerate(trainers):
        for index, state in trainer._updaters[0].states.items():
            for place, array in enumerate(_parts(state)):
                found["optimizer/%d/%d/%d" % (number, index, place)] = array.asnumpy()
        found["steps/%d" % number] = numpy.array(trainer.optimizer.num_update, dtype=numpy.int64)
    return found


def given(network: Any, trainers: Sequence[Any], arrays: Arrays) -> None:
    """Take what ``taken`` has returned, on all devices of this process, in place: recorded graphs hold the same arrays.

    Raises:
        KeyError, ValueError: it is of another network.
    """
    for name, parameter in _kept(network).items():
        for own in parameter.list_data():
            own[:] = arrays[name]
    for number, trainer in enumerate(trainers):
        steps = int(arrays["steps/%d" % number])
        # From this number on it counts the updates of each parameter that has none yet.
        trainer.optimizer.begin_num_update = trainer.optimizer.num_update = steps
        for counts in trainer.optimizer._all_index_update_counts.values():
            counts.clear()
        if steps:
            _give_states(trainer, "optimizer/%d" % number, arrays)
    mx.nd.waitall()


def _give_states(trainer, beneath, arrays):
    """Make the states, which Gluon would make at the first update, and fill them."""
    for index, parameter in enumerate(trainer._params):
        if parameter.grad_req == "null":
            continue
        for updater, weight in zip(trainer._updaters, parameter.list_data()):
            state = trainer.optimizer.create_state_multi_precision(index, weight)
            for place, own in enumerate(_parts(state)):
                own[:] = arrays["%s/%d/%d" % (beneath, index, place)]
            updater.states[index] = state
            updater.states_synced[index] = True


def _parts(state) -> List[Any]:
    """Return the arrays of an optimiser's state, which is None, an array or several."""
    if state is None:
        return []
    return list(state) if isinstance(state, (list, tuple)) else [state]


def _kept(network):
    """Return {name: parameter} of what changes, each once; what is constant is made with the network."""
    found, seen = {}, set()
    for name, one in network._collect_params_with_prefix().items():
        if id(one) not in seen and not isinstance(one, mx.gluon.Constant):
            found["network/" + name] = one
        seen.add(id(one))
    return found
