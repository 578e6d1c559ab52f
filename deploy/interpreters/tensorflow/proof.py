"""One real training step in TensorFlow: the loss of a linear fit falls. Prints what was proved."""

import tensorflow as tf


def main():
    tf.random.set_seed(1)
    device = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    with tf.device(f"/{device}:0"):
        inputs, targets = tf.random.normal([64, 8]), tf.random.normal([64, 1])
        weights = tf.Variable(tf.zeros([8, 1]))
        losses = [_step(inputs, targets, weights) for _ in range(2)]
    if not losses[1] < losses[0]:
        raise SystemExit(f"the loss did not fall: {losses!r}")
    print(f"tensorflow {tf.__version__} on {device.lower()}: loss {losses[0]:.6f} -> {losses[1]:.6f}")


def _step(inputs, targets, weights):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights) - targets))
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return float(loss)


main()
