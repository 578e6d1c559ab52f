"""The arithmetic of a training in MXNet: single precision, or on CPU devices bfloat16 where MXNet's lists allow it.

``amp-bf16`` is MXNet's own (``mxnet.contrib.amp``): it puts casts around the operators of its list, which are the
convolutions and the products of dense layers, computed by oneDNN. Weights, gradients and the optimiser's state stay in
single precision, and so do an LSTM and what else its lists name. On GPUs MXNet casts to float16 alone, which wants the
loss scaled: that is not built here.
"""

import importlib

from workers.trainer.base import job as jobs
from workers.trainer.base import processor
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Data

# Operators without an input: MXNet 1.9.1 lists them among those to be cast, and then fails to find what to cast.
_NOTHING_TO_CAST = ("_zeros", "_zeros_without_dtype", "_ones", "_full", "_arange", "_linspace", "_eye")


def apply(precision: str, kind: str) -> Data:
    """Set the precision of all that is computed after this, on devices of ``kind``; return what is in force.

    Raises:
        TrainerError: ``unsupported``, a precision that this adapter does not do on such devices, or this processor.
    """
    if precision not in ("fp32", "amp-bf16") or (precision, kind) == ("amp-bf16", "cuda"):
        raise TrainerError("unsupported", "this adapter does not compute in %s on a %s device" % (precision, kind))
    in_force = {"precision": precision, "tf32": False, "threads": jobs.threads()}
    if precision == "amp-bf16":
        lacks = processor.lacks_bfloat16()
        if lacks:
            raise TrainerError("unsupported", "MXNet does not compute in amp-bf16 here: " + lacks)
        amp = importlib.import_module("mxnet.contrib.amp.amp")
        single = [name for name in amp.list_fp32_ops(amp.bfloat16) if name not in _NOTHING_TO_CAST]
        amp.init(target_dtype="bfloat16", fp32_ops=single)
        in_force["autocast"] = "bfloat16"
    return in_force
