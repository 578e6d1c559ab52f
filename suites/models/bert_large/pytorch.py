"""BERT large in plain PyTorch."""

from suites.models.bert_base.pytorch import Network, loss

__all__ = ["Network", "loss"]
