"""WGAN-GP in TensorFlow. Dimensions: N images of a batch, Z numbers of noise, H height, W width, C channels."""

import functools
from typing import Any, Callable, Tuple

import tensorflow as tf

from suites.assemble.tensorflow import build as assembled
from suites.assemble.tensorflow.functions import flat, relu, scope, single
from suites.assemble.tensorflow.layers import Layers
from suites.models.wgan_gp import network
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Size
from workers.trainer.base.updates import Update


def outputs(layer: Callable[..., tf.Tensor], size: Size, noise_NZ: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return images of noise, and what the critic says of them."""
    made_NHWC = make(layer, size, noise_NZ)
    return made_NHWC, judge(layer, size, made_NHWC)


def criterion(outputs: Tuple[Any, tf.Tensor], *unused: tf.Tensor) -> tf.Tensor:
    """The generator's loss."""
    with scope("loss"):
        return -tf.reduce_mean(outputs[1])


def make(layer: Callable[..., tf.Tensor], size: Size, noise_NZ: tf.Tensor) -> tf.Tensor:
    x_NF, side = layer("generator.input", noise_NZ), network.least_side(size)
    with scope("generator.input"):
        x_NHWC = tf.transpose(tf.reshape(x_NF, (x_NF.shape[0], -1, side, side)), (0, 2, 3, 1))
    for block in network.generator(size)[1]:
        x_NHWC = _block(layer, block, x_NHWC)
    x_NHWC = layer("generator.output", relu("generator.relu", layer("generator.outputn", x_NHWC)))
    with scope("generator.tanh"):
        return single(tf.tanh(x_NHWC))


def judge(layer: Callable[..., tf.Tensor], size: Size, images_NHWC: tf.Tensor) -> tf.Tensor:
    x_NHWC = layer("critic.input", images_NHWC)
    for block in network.critic(size)[1]:
        x_NHWC = _block(layer, block, x_NHWC)
    x_N1 = layer("critic.output", x_NHWC, flat)
    with scope("critic.told"):
        return tf.squeeze(single(x_N1), axis=1)


def _block(layer, block, x_NHWC):
    name, resample = block.name, block.resample.name
    y_NHWC = relu(name + ".relu1", layer(block.norm1.name, x_NHWC))
    y_NHWC = layer(block.conv1.name, layer(resample, y_NHWC) if block.is_up else y_NHWC)
    y_NHWC = layer(block.conv2.name, relu(name + ".relu2", layer(block.norm2.name, y_NHWC)))
    shortcut_NHWC = layer(block.shortcut.name, layer(resample, x_NHWC))
    y_NHWC = y_NHWC if block.is_up else layer(resample, y_NHWC)
    with scope(name + ".add"):
        return shortcut_NHWC + y_NHWC


class Model(assembled.Model):
    """With an update of each network. A batch is noise, and for the critic images and by how much they are mixed."""

    def __init__(self, size: Size, layer: Layers, *given: Any) -> None:
        super().__init__(layer, *given)
        self._size = size
        self._make, self._judge = functools.partial(make, layer, size), functools.partial(judge, layer, size)

    @property
    def updates(self) -> Tuple[Update, ...]:
        found, variables = [], self.network.variables.items()
        times = self._size["critic_updates"]
        for part, loss, count in (("critic", self._critic_loss, times), ("generator", self._generator_loss, 1)):
            own = [variable for name, variable in variables if name.startswith(part + ".")]
            found.append(Update(part, loss, own, self._optimizer[part], count))
        return tuple(found)

    def _critic_loss(self, batch):
        """Gulrajani et al., 2017, equation 3."""
        noise_NZ, images_NHWC, mixes_N = batch
        made_NHWC = tf.stop_gradient(self._make(noise_NZ))
        with scope("mixed"):
            # Algorithm 1, line 5, with the part of what was made as the source has it.
            mixed_NHWC = images_NHWC + mixes_N[:, None, None, None] * (made_NHWC - images_NHWC)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(mixed_NHWC)
            told_N = self._judge(mixed_NHWC)
        slopes_NHWC = tape.gradient(told_N, mixed_NHWC)
        made_N, real_N = self._judge(made_NHWC), self._judge(images_NHWC)
        with scope("loss"):
            slopes_N = tf.sqrt(tf.reduce_sum(tf.square(single(slopes_NHWC)), axis=(1, 2, 3)))
            penalty = tf.reduce_mean(tf.square(slopes_N - 1.0))
            return tf.reduce_mean(made_N) - tf.reduce_mean(real_N) + network.PENALTY * penalty

    def _generator_loss(self, batch):
        return criterion((None, self._judge(self._make(batch[0]))))


def build(job: Job, process: Process) -> Model:
    return assembled.build(job, process, functools.partial(Model, job.model.size))
