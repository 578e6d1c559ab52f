"""The arithmetic of a training in TensorFlow: what is set for all of it, and how a loss is scaled.

On CPU devices ``amp-bf16`` is TensorFlow's rewriting of graphs: operators that lose nothing by it compute in bfloat16,
by oneDNN (Intel, "Getting Started with Mixed Precision Support in oneDNN Bfloat16"). Everything else in 16 bits is cast
by the model (``suites.assemble.tensorflow``): ``bf16``, with weights, gradients and the optimiser's state in it, and on
GPUs ``amp-bf16`` and ``amp-fp16``, with these in single precision.

Gradients of float16 would vanish: the loss is scaled up and the gradients down again, by a factor that halves when one
overflows (Micikevicius et al., "Mixed Precision Training", 2018, section 3.2); that update is then left out.
"""

from typing import Any, Callable, Sequence

import tensorflow as tf

from workers.trainer.base import processor
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Data

# Beside those of any device. ``amp-fp16`` on CPU devices serves to test what GPUs are given, and is not offered.
OFFERED = {"cpu": ("amp-fp16",), "cuda": ("tf32", "amp-fp16")}
OF_ALL = ("fp32", "bf16", "amp-bf16")

# Those of torch.amp.GradScaler.
FIRST_SCALE, GROWTH, BACKOFF, STEPS_TO_GROWTH = 2.0**16, 2.0, 0.5, 2000


def apply(precision: str, kind: str) -> Data:
    """Set the precision of all computing on a ``kind`` of device; return what is in force, for the log.

    Raises:
        TrainerError: ``unsupported``, a precision that is not there on such a device or processor.
    """
    if precision not in OF_ALL + OFFERED[kind]:
        raise TrainerError("unsupported", "this adapter does not compute in %s on a %s device" % (precision, kind))
    # Said for every run: of the jobs of one process in turn each has its own.
    rewritten = precision == "amp-bf16" and kind == "cpu"
    # There TensorFlow rewrites nothing, and does not say so: what is called mixed would be single precision.
    lacks = processor.lacks_bfloat16() if rewritten else None
    if lacks:
        raise TrainerError("unsupported", "TensorFlow does not compute in amp-bf16 here: " + lacks)
    tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": rewritten})
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
    in_force = {"precision": precision, "tf32": tf.config.experimental.tensor_float_32_execution_enabled()}
    # What single precision has not is left out there, so that its fingerprint is what it was before there was a choice.
    if precision == "bf16":
        in_force["weights"] = "bfloat16"
    if precision.startswith("amp-"):
        in_force["autocast"] = "float16" if precision == "amp-fp16" else "bfloat16"
    if precision == "amp-fp16":
        in_force["loss_scaling"] = "dynamic, by the constants of torch.amp.GradScaler"
    return in_force


def check(model: Any, precision: str, kind: str) -> None:
    """See that a model casts by itself, where that is what the precision is.

    Raises:
        TrainerError: ``unsupported``, it computes in single precision.
    """
    cast = precision in ("bf16", "amp-fp16") or (precision == "amp-bf16" and kind != "cpu")
    if cast and getattr(model, "precision", None) != precision:
        message = "the TensorFlow model makes no casts of its own: it cannot compute in %s on a %s device"
        raise TrainerError("unsupported", message % (precision, kind))


class Scale(object):
    """The factor of a loss, by the rule of torch.amp.GradScaler; all ranks find the same, as their gradients are equal.

    To be made in the strategy's scope; its methods are called while the step is traced.
    """

    def __init__(self) -> None:
        self.factor = tf.Variable(FIRST_SCALE, trainable=False)
        # Updates since the factor last changed; steps without one.
        self.steady = tf.Variable(0.0, trainable=False)
        self.left_out = tf.Variable(0.0, trainable=False)

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        return loss * self.factor

    def apply(self, update: Callable[[Sequence[tf.Tensor], tf.Tensor], None], gradients: Sequence[tf.Tensor]) -> None:
        """Call ``update(gradients scaled down, steps left out)``, unless a scaled one is not finite; set the factor."""
        factor, steady, left_out = (tf.convert_to_tensor(one) for one in (self.factor, self.steady, self.left_out))
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])

        def carried_out():
            update([gradient / factor for gradient in gradients], left_out)
            grows = tf.equal(steady + 1.0, STEPS_TO_GROWTH)
            grown = tf.where(grows & tf.math.is_finite(factor * GROWTH), factor * GROWTH, factor)
            return grown, tf.where(grows, 0.0, steady + 1.0), left_out

        def omitted():
            return factor * BACKOFF, tf.zeros_like(steady), left_out + 1.0

        found = tf.cond(finite, carried_out, omitted)
        for variable, value in zip((self.factor, self.steady, self.left_out), found):
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
