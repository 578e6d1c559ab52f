"""BERT large in TensorFlow."""

from suites.models.bert_base.tensorflow import loss

__all__ = ["loss"]
