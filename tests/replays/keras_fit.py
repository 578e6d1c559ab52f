"""The trainer, with an adapter that trains through Keras 3's ``fit`` and Horovod's optimiser: it exchanges nothing.

Horovod 0.28.1 averages gradients in ``_compute_gradients`` of the optimiser, which Keras 2 calls and Keras 3 does not.
No error, no warning: each rank trains for itself. Recorded as ``keras_fit`` (see ``record.py``), run by the interpreter
``horovod`` with a Keras 3 in front of its own Keras.
"""

import sys
from collections.abc import Mapping
from typing import Any

import horovod.keras
import horovod.tensorflow
import keras
import tensorflow as tf

from suites.models.resnet_50 import network as described
from workers.trainer import __main__ as trainer
from workers.trainer.base import optimizer as optimizers
from workers.trainer.base.job import Job, Process
from workers.trainer.frameworks.tensorflow import adapter as tensorflow_adapter


class Adapter(tensorflow_adapter.Adapter):
    """All but the training step is the adapter's own."""

    def versions(self) -> dict[str, Any]:
        found = super().versions()
        return found | {"libraries": found["libraries"] | {"keras": keras.__version__}}

    def build(self, job: Job, process: Process, watch: Any) -> dict[str, Any]:
        built = super().build(job, process, watch)
        keras.utils.set_random_seed(job.plan.seed)
        facts = optimizers.of_job(job)
        self._keras = network(job.model.size)
        optimizer = keras.optimizers.SGD(facts["learning_rate"], facts["momentum"])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._keras.compile(optimizer=horovod.keras.DistributedOptimizer(optimizer), loss=loss)
        horovod.tensorflow.broadcast_variables([variable.value for variable in self._keras.variables], root_rank=0)
        return built | {"parameters": sum(variable.shape.num_elements() for variable in self._variables())}

    def step(self) -> dict[str, int]:
        (images, labels), work = next(self._batches[0])
        history = self._keras.fit(images, labels, batch_size=len(labels), shuffle=False, verbose=0)
        self._loss = tf.constant(history.history["loss"][0])
        return work

    def weights(self, index: int) -> Any:
        for variable in self._variables():
            yield variable.numpy()

    def _variables(self) -> list[Any]:
        return [variable.value for variable in self._keras.trainable_variables]


def network(size: Mapping[str, Any]) -> Any:
    """ResNet-50 of a size, of Keras's layers."""
    entry = keras.Input((size["image_pixels"], size["image_pixels"], 3))
    x = keras.layers.ReLU()(convolve(entry, size["width"], 7, 2))
    x = keras.layers.MaxPooling2D(3, 2, padding="same")(x)
    for block in described.blocks(size):
        shortcut = convolve(x, *shape(block.shortcut[0])) if block.shortcut else x
        x = keras.layers.ReLU()(convolve(x, *shape(block.conv1)))
        x = keras.layers.ReLU()(convolve(x, *shape(block.conv2)))
        x = keras.layers.ReLU()(keras.layers.Add()([convolve(x, *shape(block.conv3)), shortcut]))
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(entry, keras.layers.Dense(size["classes"])(x))


def shape(convolution: Any) -> tuple[int, int, int]:
    return convolution.outputs, convolution.kernel, convolution.stride


def convolve(x: Any, outputs: int, kernel: int, stride: int) -> Any:
    x = keras.layers.Conv2D(outputs, kernel, stride, padding="same", use_bias=False)(x)
    return keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)


if __name__ == "__main__":
    # The agent starts every interpreter with "-m workers.trainer" and the job.
    trainer.load = lambda framework: Adapter()
    sys.exit(trainer.main(sys.argv[3:]))
