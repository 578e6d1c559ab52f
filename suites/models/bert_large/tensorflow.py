"""BERT large in TensorFlow."""

from suites.models.bert_base.tensorflow import criterion, outputs

__all__ = ["criterion", "outputs"]
