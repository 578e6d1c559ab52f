"""AlexNet in TensorFlow. Dimensions: N images of a batch, H height, W width, C channels, F features."""

from typing import Callable, Tuple

import tensorflow as tf

from suites.assemble.tensorflow.functions import cross_entropy, flat, relu
from workers.trainer.base.signatures import Size


def outputs(layer: Callable[..., tf.Tensor], size: Size, images_NHWC: tf.Tensor) -> Tuple[tf.Tensor]:
    x_NHWC = layer("pool1", relu("relu1", layer("conv1", images_NHWC)))
    x_NHWC = layer("pool2", relu("relu2", layer("conv2", x_NHWC)))
    x_NHWC = relu("relu3", layer("conv3", x_NHWC))
    x_NHWC = relu("relu4", layer("conv4", x_NHWC))
    x_NHWC = layer("pool5", relu("relu5", layer("conv5", x_NHWC)))
    x_NF = layer("drop6", x_NHWC, before=flat)
    x_NF = layer("drop7", relu("relu6", layer("fc6", x_NF)))
    x_NF = relu("relu7", layer("fc7", x_NF))
    return (layer("fc8", x_NF),)


def criterion(outputs: Tuple[tf.Tensor], labels_N: tf.Tensor) -> tf.Tensor:
    return cross_entropy(outputs[0], labels_N)
