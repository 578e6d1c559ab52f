"""The arithmetic of a training in PyTorch: what is set for all of it, what is cast, and how a loss is scaled.

``fp32`` and ``tf32`` keep everything in single precision, and differ in how a GPU multiplies. ``bf16`` keeps weights,
gradients and the optimiser's state in bfloat16. The ``amp`` ones keep them in single precision; operators that lose
nothing by it compute in 16 bits (torch.amp, "Autocast Op Reference"). Gradients of float16 would vanish: the loss is
scaled up and the gradients down again, by a factor that halves when one overflows (Micikevicius et al., "Mixed
Precision Training", 2018, section 3.2); that update is then left out.
"""

import contextlib
from typing import Any, Callable, ContextManager, Iterator, Optional, Sequence, Tuple

import torch

from workers.trainer.base import processor
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Data

# precision -> the type that autocast computes in.
AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}
# ``fp64`` is no cell of any experiment: parity is held against it.
OFFERED = ("fp32", "tf32", "bf16", "amp-bf16", "amp-fp16", "fp64")

# What oneDNN says of an operator that it has no code for.
_NO_PRIMITIVE = "could not create a primitive descriptor"


def apply(precision: str, device: torch.device) -> Data:
    """Set the precision of all computing; return what is in force, for the log. Only ``tf32`` permits TF32.

    Raises:
        TrainerError: ``unsupported``, a precision that is not there on such a device.
    """
    if precision not in OFFERED or (precision == "tf32" and device.type == "cpu"):
        message = "this adapter does not compute in %s on a %s device"
        raise TrainerError("unsupported", message % (precision, device.type))
    wanted = precision == "tf32"
    torch.set_float32_matmul_precision("high" if wanted else "highest")
    torch.backends.cuda.matmul.allow_tf32 = wanted
    torch.backends.cudnn.allow_tf32 = wanted
    # The same shapes come at every step: cuDNN may look for its fastest algorithm once.
    torch.backends.cudnn.benchmark = True
    in_force = {
        "precision": precision,
        "tf32": torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "threads": torch.get_num_threads(),
    }
    # What single precision has not is left out there, so that its fingerprint is what it was before there was a choice.
    if precision == "bf16":
        in_force["weights"] = "bfloat16"
    if precision in AUTOCAST:
        in_force["autocast"] = str(AUTOCAST[precision]).partition(".")[2]
    if precision == "amp-fp16":
        in_force["loss_scaling"] = "dynamic, torch.amp.GradScaler"
    return in_force


class Casting(object):
    """Carries out the parts of one update in ``precision``. One for each optimiser: a scale belongs to a loss.

    Args:
        limit: the rule's ``gradient_norm_limit``.
        averaged: see ``single.Strategy``; needed with a limit.
    """

    def __init__(
        self,
        precision: str,
        device: torch.device,
        limit: Optional[float] = None,
        averaged: Optional[Callable[[Any], ContextManager[Any]]] = None,
    ) -> None:
        self._limit = limit
        self._averaged = averaged
        self._kind = device.type
        self._cast = AUTOCAST.get(precision)
        self._scaler: Optional[Any] = torch.amp.GradScaler(self._kind) if precision == "amp-fp16" else None

    def forward(self, loss: Callable[[Sequence[Any]], Any], batch: Sequence[Any]) -> Any:
        """Return the loss of ``batch``.

        Raises:
            TrainerError: ``unsupported``, an LSTM in bfloat16 on a processor that oneDNN has none for: PyTorch has
                code of its own for all else.
        """
        try:
            with self._casting():
                return loss(batch)
        except RuntimeError as error:
            lacks = processor.lacks_bfloat16() if _NO_PRIMITIVE in str(error) else None
            if lacks and self._cast == torch.bfloat16:
                raise TrainerError(
                    "unsupported", "PyTorch does not compute this here: %s (%s)" % (lacks, error)
                ) from error
            raise

    def backward(self, loss: Any, parameters: Optional[Sequence[Any]]) -> None:
        """Add to the gradients of ``parameters``, or of all; they are scaled until ``update`` or ``unscale``."""
        (self._scaler.scale(loss) if self._scaler else loss).backward(inputs=parameters)

    def update(self, optimizer: Any) -> None:
        """Update the weights, unless a scaled gradient is not finite."""
        if self._limit is None or self._averaged is None:
            self._step(optimizer)
            return
        with self._averaged(optimizer):
            if self._scaler is not None:
                self._scaler.unscale_(optimizer)
            parameters = [one for group in optimizer.param_groups for one in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, self._limit)
            self._step(optimizer)

    def _step(self, optimizer):
        if self._scaler is None:
            optimizer.step()
            return
        self._scaler.step(optimizer)
        self._scaler.update()

    def unscale(self, optimizer: Any) -> None:
        """Make the gradients what they are, where no update follows."""
        if self._scaler is not None:
            self._scaler.unscale_(optimizer)
            self._scaler.update()

    def scale(self) -> Optional[Tuple[float, float]]:
        """Return (factor of the loss, updates since it last changed), None where no loss is scaled."""
        if self._scaler is None:
            return None
        state = self._scaler.state_dict()
        return float(state["scale"]), float(state["_growth_tracker"])

    def rescale(self, factor: float, since: float) -> None:
        """Take what ``scale`` has returned."""
        if self._scaler is not None:
            state = self._scaler.state_dict()
            self._scaler.load_state_dict(dict(state, scale=factor, _growth_tracker=int(since)))

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Cast as in ``forward`` what CUDA records in it: without the cache of cast weights, which replays would miss
        (CUDA semantics, "Usage with torch.cuda.amp")."""
        with torch.autocast(self._kind, dtype=self._cast, enabled=self._cast is not None, cache_enabled=False):
            yield

    @contextlib.contextmanager
    def _casting(self) -> Iterator[None]:
        if self._cast is None:
            yield
            return
        with torch.autocast(self._kind, dtype=self._cast):
            yield
