"""BERT large in plain PyTorch."""

from suites.models.bert_base.pytorch import Network, criterion

__all__ = ["Network", "criterion"]
