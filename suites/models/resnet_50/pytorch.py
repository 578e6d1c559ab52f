"""ResNet-50 v1.5 in plain PyTorch.

Dimensions: N images of a batch, C channels, H height, W width, K classes, F features before the last layer.
"""

import torch
from torch import nn
from torch.nn import functional

from suites.datasets import images
from suites.models.resnet_50 import architecture

# In all frameworks: share of the new batch in the running statistics, and the term that avoids a division by zero.
NORM_MOMENTUM = 0.1
NORM_EPSILON = 1e-5


def convolution(inputs, outputs, kernel, stride):
    """A convolution without bias whose output has the input's side, divided by the stride."""
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)


def normalization(channels):
    return nn.BatchNorm2d(channels, eps=NORM_EPSILON, momentum=NORM_MOMENTUM)


class Bottleneck(nn.Module):
    """1 x 1 narrows, 3 x 3 (with the stride) works, 1 x 1 widens; the shortcut is added before the last ReLU."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = width * architecture.EXPANSION
        self.conv1 = convolution(inputs, width, 1, 1)
        self.bn1 = normalization(width)
        self.conv2 = convolution(width, width, 3, stride)
        self.bn2 = normalization(width)
        self.conv3 = convolution(width, outputs, 1, 1)
        self.bn3 = normalization(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride == 2 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), normalization(outputs))

    def forward(self, x_NCHW):
        shortcut_NCHW = x_NCHW if self.downsample is None else self.downsample(x_NCHW)
        x_NCHW = self.relu(self.bn1(self.conv1(x_NCHW)))
        x_NCHW = self.relu(self.bn2(self.conv2(x_NCHW)))
        return self.relu(self.bn3(self.conv3(x_NCHW)) + shortcut_NCHW)


class ResNet(nn.Module):
    """The network of a size (a table of ``[sizes]`` in ``model.toml``)."""

    def __init__(self, size):
        super().__init__()
        self.conv1 = convolution(3, size["width"], 7, 2)
        self.bn1 = normalization(size["width"])
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        stages = {}
        for name, inputs, width, stride in architecture.blocks(size):
            stages.setdefault(name.split(".")[0], []).append(Bottleneck(inputs, width, stride))
        self.stages = list(stages)
        for stage, found in stages.items():
            self.add_module(stage, nn.Sequential(*found))
        self.fc = nn.Linear(architecture.features(size), size["classes"])

    def forward(self, images_NCHW):
        x_NCHW = self.maxpool(self.relu(self.bn1(self.conv1(images_NCHW))))
        for stage in self.stages:
            x_NCHW = getattr(self, stage)(x_NCHW)
        x_NF = x_NCHW.mean(dim=(2, 3))
        return self.fc(x_NF)

    def load(self, weights):
        """Take {name: array} of ``architecture.shapes`` as the trainable parameters."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(torch.from_numpy(weights[name]))


class Model(object):
    """What the adapter trains: a network, its loss, the batches of a rank and its optimiser's numbers."""

    def __init__(self, network, batches, optimizer):
        self.network = network
        self.batches = batches
        self.optimizer = optimizer

    def loss(self, batch):
        """Return the mean cross entropy of a batch (images_NCHW, labels_N)."""
        images_NCHW, labels_N = batch
        return functional.cross_entropy(self.network(images_NCHW), labels_N)


def build(job, process, device):
    """Return the ``Model`` on ``device``, with the initial weights of the plan's seed."""
    size = job["model"]["sizes"][job["plan"]["size"]]
    network = ResNet(size)
    network.load(architecture.initial_weights(size, job["plan"]["seed"]))

    def batches(rank):
        return images.batches(job, rank, size, "pytorch")

    return Model(network.to(device), batches, architecture.optimizer(job))
