"""The names of what passes between the loop, the adapters and the models: types for annotations, and nothing else.

Tensors and arrays are ``Any``: nothing here may import a framework, nor numpy before the framework has.
"""

from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Optional, Tuple

# The data of an event, or what of it an adapter has found.
Data = Dict[str, Any]
# ``emit(kind, **data)`` appends an event.
Emit = Callable[..., None]
# Seconds, from wherever.
Clock = Callable[[], float]
# Passes batches on and notes how long each was waited for.
Watch = Callable[[Iterable[Any]], Iterator[Any]]
# Amounts by unit: {"images": 4}.
Work = Mapping[str, float]
# A numpy array, and several by name.
Array = Any
Arrays = Mapping[str, Any]
# What to update weights by: see ``workers.trainer.base.optimizer``.
Rule = Mapping[str, Any]
# A batch's tensors and its work.
Batch = Tuple[Any, Work]
# The batches of a rank, without end.
Batches = Callable[[int], Iterator[Batch]]
# A table of ``[sizes]`` in ``model.toml``.
Size = Mapping[str, Any]
# An adapter of a framework: ``workers.trainer.frameworks`` lists its verbs.
Adapter = Any
# What rank 0 proposes to do next, (phase, steps), or None at the end; and what all ranks are told to do.
Proposal = Optional[Tuple[str, int]]
Order = Dict[str, Any]
