"""Makes models in PyTorch.

A model's ``pytorch.py`` has ``Network(size)``, a module whose parameters have the names of the description, and
``criterion(outputs, *targets)``, a scalar tensor: the loss of what the network gives for its inputs. Images are NCHW.
One of several updates has a ``Model`` of its own besides, and a ``build`` that gives it to the one here.

PyTorch also computes in double precision (``fp64``): that is what the parity of all frameworks is held against.
"""

from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import torch
from torch import nn

from suites import modules
from suites.assemble import parts
from suites.inputs import Field
from workers.trainer.base import updates
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Array, Arrays, Batches, Rule
from workers.trainer.protocol import DEVICE, PINNED

# precision -> the type of the weights and of what a batch has, where it is not single precision.
_TYPES = {"fp64": torch.float64, "bf16": torch.bfloat16}


class Model(object):
    """What the adapter trains: a network, its loss, the batches of a rank and its optimiser's numbers; of several
    updates those of each by its name."""

    def __init__(
        self,
        network: nn.Module,
        criterion: Callable[..., torch.Tensor],
        fields: Sequence[Field],
        batches: Batches,
        optimizer: Rule,
    ) -> None:
        self.network = network
        self._criterion = criterion
        self._fields = fields
        self._given = sum(not field.target for field in fields)
        self.batches = batches
        self._optimizer = optimizer

    @property
    def updates(self) -> Tuple[updates.Update, ...]:
        """All its parameters that are trained by its one loss."""
        trained = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        return updates.whole(self.loss, trained, self._optimizer)

    def loss(self, batch: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the loss of a batch, the mean over its samples."""
        return self._criterion(self.network(*batch[: self._given]), *batch[self._given :])

    def evaluated(
        self, network: nn.Module, batch: Sequence[torch.Tensor]
    ) -> Tuple[Tuple[torch.Tensor, ...], Optional[torch.Tensor]]:
        """Return (outputs, loss) of a batch; without targets there is no loss. ``network``: this one's, without what a
        strategy has put around it."""
        found, targets = network(*batch[: self._given]), batch[self._given :]
        return _flat(found), self._criterion(found, *targets) if targets else None

    def tensors(self, arrays: Sequence[Array], device: torch.device) -> List[torch.Tensor]:
        """Return the arrays of a batch, or those that the network is given, as tensors on ``device``."""
        dtype = next(self.network.parameters()).dtype
        return [tensor(field.kind, one, dtype).to(device) for field, one in zip(self._fields, arrays)]

    def described(self, arrays: Iterable[Array]) -> Dict[str, Array]:
        """Return {name: described array} of an array for each parameter, without those that are None: PyTorch has the
        described layouts."""
        found = zip((name for name, _ in self.network.named_parameters()), arrays)
        return {name: array for name, array in found if array is not None}

    def running(self) -> Dict[str, Array]:
        """Return {name: array} of the running statistics; what is not kept with a network is constant."""
        found, kept = self.network.named_buffers(), set(self.network.state_dict())
        floating = [(name, buffer) for name, buffer in found if name in kept and buffer.is_floating_point()]
        return {name: _wide(buffer).cpu().numpy() for name, buffer in floating}

    def given(self, batch: Sequence[torch.Tensor]) -> Dict[str, Array]:
        """Return {``batch.<field>``: array}: a batch as a job gives it."""
        return {"batch." + field.name: array(field.kind, tensor) for field, tensor in zip(self._fields, batch)}


def _flat(outputs):
    """Return the tensors of what a network gives, in one tuple."""
    if outputs is None:
        return ()
    return (outputs,) if isinstance(outputs, torch.Tensor) else tuple(one for part in outputs for one in _flat(part))


def _wide(tensor):
    """Numpy has no bfloat16; single precision holds all of its numbers."""
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


def build(job: Job, process: Process, device: torch.device, kind: Callable[..., Model] = Model) -> Model:
    """Return the ``Model`` on ``device``, with its initial weights; ``kind``: what makes it."""
    own = modules.part_of(job, "pytorch")
    network = own.Network(job.model.size)
    load(network, parts.weights_of(job))
    frozen = parts.frozen_of(job)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name not in frozen)
    fields = parts.fields_of(job)
    dtype = _TYPES.get(job.plan.precision, torch.float32)
    place = PINNED if job.dataset and device.type == "cuda" else job.plan.data_on
    layout = torch.channels_last if "channels_last" in job.plan.switches else torch.contiguous_format

    def to_tensors(*arrays):
        found = [tensor(field.kind, array, dtype, layout) for field, array in zip(fields, arrays)]
        return [_placed(one, place, device) for one in found]

    def batches(rank):
        return parts.batches(job, rank, "pytorch", to_tensors, outputs)

    def outputs(*arrays):
        with torch.no_grad():
            found, _ = model.evaluated(network, model.tensors(arrays, device))
        return tuple(array("numbers", one) for one in found)

    model = kind(network.to(device, dtype), own.criterion, fields, batches, updates.rules(job))
    return model


def _placed(tensor, place, device):
    """From pageable memory a copy to a GPU waits for itself, whatever it was told: CUDA runtime API, "API
    synchronization behavior"."""
    if place == DEVICE:
        return tensor.to(device)
    return tensor.pin_memory() if place == PINNED else tensor


def load(network: nn.Module, weights: Arrays) -> None:
    """Take {name: array} as the trainable parameters, all of which must be there.

    Raises:
        KeyError: the network has a parameter that the description lacks.
    """
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name]))


def tensor(
    kind: str,
    array: Array,
    dtype: torch.dtype = torch.float32,
    layout: torch.memory_format = torch.contiguous_format,
) -> torch.Tensor:
    """Return the tensor of an array of a batch, see ``suites.inputs.Field``; ``dtype``: that of what is no integer;
    ``layout``: that of images."""
    found = torch.from_numpy(array)
    if found.is_floating_point():
        found = found.to(dtype)
    return found.permute(0, 3, 1, 2).contiguous(memory_format=layout) if kind == "image" else found


def array(kind: str, tensor: torch.Tensor) -> Array:
    """The reverse of ``tensor``."""
    found = tensor.permute(0, 2, 3, 1).contiguous() if kind == "image" else tensor
    return (found.float() if found.is_floating_point() else found).cpu().numpy()
