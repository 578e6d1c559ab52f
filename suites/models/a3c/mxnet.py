"""A3C in MXNet's Gluon. Dimensions: N agent steps of a batch, C images, H height, W width, F features, A actions."""

from typing import Any, Tuple

from mxnet.gluon import nn

from suites.assemble.mxnet.layers import attach
from suites.models.a3c import network
from workers.trainer.base.signatures import Size


class Network(nn.HybridBlock):
    def __init__(self, size: Size) -> None:
        super(Network, self).__init__()
        attach(self, network.layers(size))

    def hybrid_forward(self, F: Any, images_NCHW: Any, actions_N: Any, returns_N: Any) -> Any:
        return self.criterion(F, self.outputs(F, images_NCHW), actions_N, returns_N)

    def outputs(self, F: Any, images_NCHW: Any) -> Tuple[Any, Any]:
        """Return the logits of the actions, and what the state is worth."""
        x_NCHW = F.relu(self.conv1(images_NCHW))
        x_NCHW = F.relu(self.conv2(x_NCHW))
        # A dense layer takes all of an image as its features.
        x_NF = F.relu(self.fc(x_NCHW))
        return self.policy(x_NF), F.reshape(self.value(x_NF), shape=(-1,))

    def criterion(self, F: Any, outputs: Tuple[Any, Any], actions_N: Any, returns_N: Any) -> Any:
        """Mnih et al., 2016, section 4: through the advantage no gradient flows."""
        logits_NA, values_N = outputs
        errors_N = returns_N - values_N
        logarithms_NA = F.log_softmax(logits_NA, axis=1)
        taken_N = F.pick(logarithms_NA, actions_N, axis=1)
        entropies_N = -F.sum(F.exp(logarithms_NA) * logarithms_NA, axis=1)
        losses_N = -taken_N * F.BlockGrad(errors_N) - network.ENTROPY * entropies_N
        return F.mean(losses_N + network.VALUE * F.square(errors_N))
