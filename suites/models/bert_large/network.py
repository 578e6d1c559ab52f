"""BERT large as data: BERT base with more and wider blocks, which its sizes tell."""

from suites.models.bert_base.network import layers

__all__ = ["layers"]
