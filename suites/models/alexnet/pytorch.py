"""AlexNet in plain PyTorch. Dimensions: N images of a batch, C channels, H height, W width, F features."""

from torch import Tensor, nn
from torch.nn import functional

from suites.assemble.pytorch.layers import module
from suites.models.alexnet import network
from workers.trainer.base.signatures import Size


class Network(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        for layer in network.layers(size):
            self.add_module(layer.name, module(layer))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        x_NCHW = self.pool1(self.relu(self.conv1(images_NCHW)))
        x_NCHW = self.pool2(self.relu(self.conv2(x_NCHW)))
        x_NCHW = self.relu(self.conv3(x_NCHW))
        x_NCHW = self.relu(self.conv4(x_NCHW))
        x_NCHW = self.pool5(self.relu(self.conv5(x_NCHW)))
        x_NF = self.drop6(x_NCHW.flatten(1))
        x_NF = self.drop7(self.relu(self.fc6(x_NF)))
        return self.fc8(self.relu(self.fc7(x_NF)))


def criterion(logits_NK: Tensor, labels_N: Tensor) -> Tensor:
    return functional.cross_entropy(logits_NK, labels_N)
