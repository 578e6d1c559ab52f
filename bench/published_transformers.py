"""Attention models of transformers (https://pypi.org/project/transformers) with the weights of the suite's.

They are made from a configuration; nothing is downloaded. Where transformers offers several ways to compute the same,
the fastest is taken: PyTorch's own operator for attention and for GELU, no cache of keys and values, and no logits that
no loss reads. Dropout has the same places on both sides; but for Marian, which draws numbers for the choice of layers
in between, it also draws the same numbers.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from suites.models.bert_base import network as bert
from suites.models.gpt_2 import network as gpt_2
from suites.models.transformer import network as transformer
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Size

# Not transformers' default for GPT-2, which composes the same approximation of many operators.
GELU = "gelu_pytorch_tanh"
ATTENTION = "sdpa"

# The name of a module of the suite's -> transformers'; {} is the number of a block.
Names = Mapping[str, str]
BERT: Names = {
    "embeddings.tokens": "bert.embeddings.word_embeddings",
    "embeddings.positions": "bert.embeddings.position_embeddings",
    "embeddings.segments": "bert.embeddings.token_type_embeddings",
    "embeddings.norm": "bert.embeddings.LayerNorm",
    "encoder.{}.query": "bert.encoder.layer.{}.attention.self.query",
    "encoder.{}.key": "bert.encoder.layer.{}.attention.self.key",
    "encoder.{}.value": "bert.encoder.layer.{}.attention.self.value",
    "encoder.{}.projection": "bert.encoder.layer.{}.attention.output.dense",
    "encoder.{}.attention_norm": "bert.encoder.layer.{}.attention.output.LayerNorm",
    "encoder.{}.inner": "bert.encoder.layer.{}.intermediate.dense",
    "encoder.{}.outer": "bert.encoder.layer.{}.output.dense",
    "encoder.{}.norm": "bert.encoder.layer.{}.output.LayerNorm",
    "transform": "cls.predictions.transform.dense",
    "transform_norm": "cls.predictions.transform.LayerNorm",
    "output": "cls.predictions",
    "pooler": "bert.pooler.dense",
    "following": "cls.seq_relationship",
    "answer": "qa_outputs",
}
TRANSFORMER: Names = {
    "tokens": "model.shared",
    **{
        f"{side}.{{}}.{own}.{mine}": f"model.{side}.layers.{{}}.{attention}{theirs}"
        for side in ("encoder", "decoder")
        for own, attention in (("own", "self_attn"), ("source", "encoder_attn"))
        for mine, theirs in (
            ("query", ".q_proj"),
            ("key", ".k_proj"),
            ("value", ".v_proj"),
            ("projection", ".out_proj"),
            ("norm", "_layer_norm"),
        )
    },
    **{
        f"{side}.{{}}.fed.{mine}": f"model.{side}.layers.{{}}.{theirs}"
        for side in ("encoder", "decoder")
        for mine, theirs in (("inner", "fc1"), ("outer", "fc2"), ("norm", "final_layer_norm"))
    },
}


def make(name: str, ours: nn.Module, job: Job) -> tuple[nn.Module, Callable[..., Any]]:
    """Return transformers' class ``name`` with the weights of ``ours``, and what computes by it what ``ours`` computes.

    Raises:
        RuntimeError: it has other parameters.
    """
    return _MAKERS[name](ours, job.model.size)


def _gpt_2(ours, size):
    rate = size["dropout"]
    found = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=size["vocabulary"],
            n_positions=size["positions"],
            n_embd=size["width"],
            n_layer=size["blocks"],
            n_head=size["heads"],
            n_inner=gpt_2.EXPANSION * size["width"],
            activation_function=GELU,
            layer_norm_epsilon=gpt_2.EPSILON,
            resid_pdrop=rate,
            embd_pdrop=rate,
            attn_pdrop=rate,
            attn_implementation=ATTENTION,
        )
    )
    # Its matrices are (inputs, outputs).
    turned = re.compile(r"\.c_(attn|proj|fc)\.weight$")
    _load(
        found,
        (("transformer." + name, one.t() if turned.search(name) else one) for name, one in ours.named_parameters()),
    )
    return found, lambda tokens: found(tokens, use_cache=False).logits


def _bert_config(size: Size) -> Any:
    return transformers.BertConfig(
        vocab_size=size["vocabulary"],
        max_position_embeddings=size["positions"],
        hidden_size=size["width"],
        num_hidden_layers=size["blocks"],
        num_attention_heads=size["heads"],
        intermediate_size=bert.EXPANSION * size["width"],
        hidden_act=GELU,
        layer_norm_eps=bert.EPSILON,
        hidden_dropout_prob=size["dropout"],
        attention_probs_dropout_prob=size["dropout"],
        attn_implementation=ATTENTION,
    )


def _bert_pretraining(ours, size):
    found = transformers.BertForPreTraining(_bert_config(size))
    _load(found, _renamed(ours, BERT))

    def forward(tokens, segments, mask, places):
        # Its own ``forward`` computes the logits of all tokens, also of those that no loss reads.
        seen, pooled = found.bert(tokens, mask, segments)[:2]
        hidden = seen.gather(1, places.unsqueeze(2).expand(-1, -1, seen.shape[2]))
        return found.cls(hidden, pooled)

    return found, forward


def _bert_answering(ours, size):
    found = transformers.BertForQuestionAnswering(_bert_config(size))
    _load(found, _renamed(ours, BERT))

    def forward(tokens, segments, mask):
        return found.qa_outputs(found.bert(tokens, mask, segments)[0])

    return found, forward


def _marian(ours, size):
    """Marian's network is the Transformer of the paper but for biases of the attention, which are taken out here, the
    epsilon of normalisations, and the order of sines and cosines, whose table is replaced."""
    found = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=size["vocabulary"],
            max_position_embeddings=max(size["source_tokens"], size["target_tokens"]),
            d_model=size["width"],
            encoder_layers=size["blocks"],
            decoder_layers=size["blocks"],
            encoder_attention_heads=size["heads"],
            decoder_attention_heads=size["heads"],
            encoder_ffn_dim=size["inner"],
            decoder_ffn_dim=size["inner"],
            activation_function="relu",
            dropout=size["dropout"],
            attention_dropout=0.0,
            activation_dropout=0.0,
            scale_embedding=True,
            pad_token_id=0,
            attn_implementation=ATTENTION,
        )
    )
    for name, part in found.named_modules():
        if isinstance(part, nn.Linear) and name.endswith("_proj"):
            part.bias = None
        if isinstance(part, nn.LayerNorm):
            part.eps = transformer.EPSILON
    _load(found, _renamed(ours, TRANSFORMER))
    for side, inner in (("source", found.model.encoder), ("target", found.model.decoder)):
        table = ours.get_buffer(side + "_positions.table_TE")
        inner.embed_positions.weight.data[: len(table)] = table

    def forward(sources, mask, targets):
        seen = found.model(sources, mask, targets, use_cache=False)[0]
        # Its own ``forward`` adds a bias that is 0 and is not trained.
        return found.lm_head(seen)

    return found, forward


_MAKERS = {
    "GPT2LMHeadModel": _gpt_2,
    "BertForPreTraining": _bert_pretraining,
    "BertForQuestionAnswering": _bert_answering,
    "MarianMTModel": _marian,
}


def _renamed(ours: nn.Module, names: Names) -> Iterable[tuple[str, Tensor]]:
    """Yield the parameters of ``ours`` under transformers' names."""
    for name, parameter in ours.named_parameters():
        module, _, last = name.rpartition(".")
        numbers = re.findall(r"\.(\d+)\.", module)
        yield names[re.sub(r"\.\d+\.", ".{}.", module)].format(*numbers) + "." + last, parameter


def _load(theirs: nn.Module, given: Iterable[tuple[str, Tensor]]) -> None:
    """Copy {name: weights} into all that ``theirs`` trains.

    Raises:
        RuntimeError: it has other parameters.
    """
    weights = dict(given)
    own = {name: one for name, one in theirs.named_parameters() if one.requires_grad}
    other = {name: one.shape for name, one in own.items()}.items() ^ {
        n: one.shape for n, one in weights.items()
    }.items()
    if other:
        raise RuntimeError(f"{type(theirs).__name__} of transformers has other parameters: {sorted(other)}")
    with torch.no_grad():
        for name, one in own.items():
            one.copy_(weights[name])
