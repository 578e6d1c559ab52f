"""ResNet-50 v1.5 in plain PyTorch. Dimensions: N images of a batch, C channels, H height, W width, F features."""

import collections

from torch import Tensor, nn
from torch.nn import functional

from suites.assemble.pytorch.layers import module
from suites.models.resnet_50 import network
from workers.trainer.base.signatures import Size


class Bottleneck(nn.Module):
    """The shortcut is added before the last ReLU."""

    def __init__(self, block: network.Block) -> None:
        super().__init__()
        self.conv1, self.bn1 = module(block.conv1), module(block.bn1)
        self.conv2, self.bn2 = module(block.conv2), module(block.bn2)
        self.conv3, self.bn3 = module(block.conv3), module(block.bn3)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(*map(module, block.shortcut)) if block.shortcut else None

    def forward(self, x_NCHW: Tensor) -> Tensor:
        shortcut_NCHW = x_NCHW if self.downsample is None else self.downsample(x_NCHW)
        x_NCHW = self.relu(self.bn1(self.conv1(x_NCHW)))
        x_NCHW = self.relu(self.bn2(self.conv2(x_NCHW)))
        return self.relu(self.bn3(self.conv3(x_NCHW)) + shortcut_NCHW)


class Network(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.conv1, self.bn1, self.maxpool = map(module, network.stem(size))
        self.relu = nn.ReLU(inplace=True)
        stages = collections.OrderedDict()
        for block in network.blocks(size):
            stages.setdefault(block.name.split(".")[0], []).append(Bottleneck(block))
        self.stages = list(stages)
        for stage, blocks in stages.items():
            self.add_module(stage, nn.Sequential(*blocks))
        self.fc = module(network.classifier(size))

    def forward(self, images_NCHW: Tensor) -> Tensor:
        x_NCHW = self.maxpool(self.relu(self.bn1(self.conv1(images_NCHW))))
        for stage in self.stages:
            x_NCHW = getattr(self, stage)(x_NCHW)
        x_NF = x_NCHW.mean(dim=(2, 3))
        return self.fc(x_NF)


def criterion(logits_NK: Tensor, labels_N: Tensor) -> Tensor:
    return functional.cross_entropy(logits_NK, labels_N)
