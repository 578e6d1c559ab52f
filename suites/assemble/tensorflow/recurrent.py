"""Recurrent layers in TensorFlow, which has no operator for these cells on CPU devices: a loop in the graph.

The products of all inputs come before the loop and those of the weights' gradients behind it, as in oneDNN and cuDNN:
what goes from place to place is the product with the state alone. Left to itself TensorFlow would add up a gradient of
the weights at each place.

Dimensions: T places, N samples of a batch, H per hidden state, G numbers of a cell's products.
"""

import tensorflow as tf


def block_lstm(x_TNE: tf.Tensor, of_input_EG: tf.Tensor, of_state_HG: tf.Tensor, bias_G: tf.Tensor) -> tf.Tensor:
    """Return hidden states x_TNH of a ``layers.Lstm``, begun with zeros, its gates in the order of BlockLSTM."""
    hidden = of_state_HG.shape[0]
    begin_NH = tf.zeros([tf.shape(x_TNE)[1], hidden], x_TNE.dtype)
    unused_H = tf.zeros([hidden], x_TNE.dtype)
    return tf.raw_ops.BlockLSTM(
        seq_len_max=tf.shape(x_TNE, tf.int64)[0],
        x=x_TNE,
        cs_prev=begin_NH,
        h_prev=begin_NH,
        w=tf.concat([of_input_EG, of_state_HG], axis=0),
        wci=unused_H,
        wcf=unused_H,
        wco=unused_H,
        b=bias_G,
        # Neither of TensorFlow's additions to the cell.
        forget_bias=0.0,
        cell_clip=0.0,
        use_peephole=False,
    ).h


def hidden_states(cell: str, products_TNG: tf.Tensor, weight_HG: tf.Tensor, *bias_G: tf.Tensor) -> tf.Tensor:
    """Return hidden states x_TNH of a ``layers.Recurrent``, begun with zeros.

    Args:
        products_TNG: those of the inputs, with their bias; of an ``rnn`` with both.
        weight_HG, bias_G: of the state; an ``rnn`` has no more bias there.
    """
    # As TensorFlow calls the gradients of a scope, which it does not do here.
    scope = "gradient_tape/" + tf.get_current_name_scope()
    ahead, kept_too, back, apart = _CELLS[cell]

    @tf.custom_gradient
    def computed(products_TNG, weight_HG, *bias_G):
        hidden, products = weight_HG.shape
        begin_NH, begin_NG = (tf.zeros_like(products_TNG[0, :, :width]) for width in (hidden, products))

        def step(before, products_NG):
            return ahead(products_NG, before[0], weight_HG, *bias_G)

        kept = tf.scan(step, products_TNG, (begin_NH,) * (1 + kept_too))

        def backward(gradient_TNH):
            def step(later, given):
                return back(later[0], weight_HG, *given)

            gradient_TNH.set_shape(kept[0].shape)
            with tf.name_scope(scope):
                before_TNH = tf.concat([begin_NH[None], kept[0][:-1]], axis=0)
                found = tf.scan(
                    step, (gradient_TNH, before_TNH, *kept), (begin_NH,) + (begin_NG,) * apart, reverse=True
                )
                state_PG, before_PH = (tf.reshape(one, (-1, one.shape[2])) for one in (found[-1], before_TNH))
                of_bias_G = [tf.reduce_sum(state_PG, axis=0) for _ in bias_G]
                return (found[1], tf.matmul(before_PH, state_PG, transpose_a=True), *of_bias_G)

        return kept[0], backward

    return computed(products_TNG, weight_HG, *bias_G)


def _rnn(products_NH, state_NH, weight_HH):
    return (tf.tanh(products_NH + tf.matmul(state_NH, weight_HH)),)


def _rnn_back(later_NH, weight_HH, gradient_NH, before_NH, found_NH):
    """Return the gradient that goes on to the place before, and that of both products."""
    of_both_NH = (gradient_NH + later_NH) * (1.0 - tf.square(found_NH))
    return tf.matmul(of_both_NH, weight_HH, transpose_b=True), of_both_NH


def _gru(products_NG, state_NH, weight_HG, bias_G):
    """Return the new state, and what its gradient takes: the gates, what is new, and its product of the state."""
    of_state_NG = tf.matmul(state_NH, weight_HG) + bias_G
    reset_given, update_given, new_given = tf.split(products_NG, 3, axis=1)
    reset_state, update_state, new_state_NH = tf.split(of_state_NG, 3, axis=1)
    reset_NH, update_NH = tf.sigmoid(reset_given + reset_state), tf.sigmoid(update_given + update_state)
    new_NH = tf.tanh(new_given + reset_NH * new_state_NH)
    return new_NH + update_NH * (state_NH - new_NH), reset_NH, update_NH, new_NH, new_state_NH


def _gru_back(later_NH, weight_HG, gradient_NH, before_NH, found_NH, reset_NH, update_NH, new_NH, new_state_NH):
    """As ``_rnn_back``, with a gradient of each product."""
    gradient_NH = gradient_NH + later_NH
    of_update_NH = gradient_NH * (before_NH - new_NH) * update_NH * (1.0 - update_NH)
    of_new_NH = gradient_NH * (1.0 - update_NH) * (1.0 - tf.square(new_NH))
    of_reset_NH = of_new_NH * new_state_NH * reset_NH * (1.0 - reset_NH)
    of_inputs_NG = tf.concat([of_reset_NH, of_update_NH, of_new_NH], axis=1)
    of_state_NG = tf.concat([of_reset_NH, of_update_NH, of_new_NH * reset_NH], axis=1)
    before = gradient_NH * update_NH + tf.matmul(of_state_NG, weight_HG, transpose_b=True)
    return before, of_inputs_NG, of_state_NG


# A cell, and how many arrays it gives beside its state; its gradient, and how many of products that gives.
_CELLS = {"rnn": (_rnn, 0, _rnn_back, 1), "gru": (_gru, 4, _gru_back, 2)}
