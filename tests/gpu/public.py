"""Others' networks, trained as their users train them: what tbd's are held against on the same device.

``python3 -m tests.gpu.public NETWORK ORDER``, where ORDER is JSON: {size, precision, batch, seconds, warm_up_s, device,
fast}. ``size`` has the facts of tbd's model, by which the other network is made. Batches are random, and lie on the
device. ``fast``: compiled, with a fused optimiser, images in channels_last. Prints {samples_per_s, parameters, of}.
"""

import contextlib
import json
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import nn
from torch.nn import functional

CHUNK_S = 0.2


class Subject(NamedTuple):
    """``loss``: of a batch, a function of its tensors; ``of``: whose network it is."""

    network: nn.Module
    batch: Sequence[torch.Tensor]
    loss: Callable[..., torch.Tensor]
    of: str


def resnet_50(size: Dict[str, Any], count: int) -> Subject:
    """timm's, or torchvision's where there is no timm."""
    try:
        import timm

        network, of = timm.create_model("resnet50"), "timm " + timm.__version__
    except ImportError:
        import torchvision

        network, of = torchvision.models.resnet50(weights=None), "torchvision " + torchvision.__version__
    images, labels = torch.rand(count, 3, 224, 224), torch.randint(1000, (count,))
    return Subject(network, [images, labels], lambda x, y: functional.cross_entropy(network(x), y), of)


def bert_base(size: Dict[str, Any], count: int) -> Subject:
    """The pre-training network of transformers; its output is computed at the hidden places only, as tbd's is."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=size["vocabulary"],
        hidden_size=size["width"],
        num_hidden_layers=size["blocks"],
        num_attention_heads=size["heads"],
        intermediate_size=4 * size["width"],
        hidden_act="gelu_new",
        max_position_embeddings=size["positions"],
        hidden_dropout_prob=size["dropout"],
        attention_probs_dropout_prob=size["dropout"],
    )
    network = transformers.BertForPreTraining(config)

    def loss(
        tokens_NT: Any, segments_NT: Any, mask_NT: Any, places_NP: Any, originals_NP: Any, following_N: Any
    ) -> Any:
        x_NTE, pooled_NE = network.bert(tokens_NT, token_type_ids=segments_NT, attention_mask=mask_NT)[:2]
        x_NPE = x_NTE.gather(1, places_NP.unsqueeze(2).expand(-1, -1, x_NTE.shape[2]))
        logits_NPK = network.cls.predictions(x_NPE)
        of_tokens = functional.cross_entropy(logits_NPK.flatten(0, 1), originals_NP.flatten())
        return of_tokens + functional.cross_entropy(network.cls.seq_relationship(pooled_NE), following_N)

    tokens, hidden = size["tokens"], size["predictions"]
    mask_NT = torch.ones(count, tokens, dtype=torch.long)
    mask_NT[: max(1, count // 10), tokens // 2 :] = 0  # some are shorter, as in tbd's batches
    batch = [
        torch.randint(4, size["vocabulary"], (count, tokens)),
        (torch.arange(tokens) >= tokens // 2).long().expand(count, tokens).contiguous(),
        mask_NT,
        torch.randint(tokens // 2, (count, hidden)),
        torch.randint(4, size["vocabulary"], (count, hidden)),
        torch.randint(2, (count,)),
    ]
    return Subject(network, batch, loss, "transformers " + transformers.__version__)


def gpt_2(size: Dict[str, Any], count: int) -> Subject:
    """The language model of transformers."""
    import transformers

    config = transformers.GPT2Config(
        vocab_size=size["vocabulary"],
        n_positions=size["positions"],
        n_embd=size["width"],
        n_layer=size["blocks"],
        n_head=size["heads"],
        resid_pdrop=size["dropout"],
        embd_pdrop=size["dropout"],
        attn_pdrop=size["dropout"],
    )
    network = transformers.GPT2LMHeadModel(config)

    def loss(tokens_NT: Any, following_NT: Any) -> Any:
        logits_NTK = network(tokens_NT, use_cache=False).logits
        return functional.cross_entropy(logits_NTK.flatten(0, 1), following_NT.flatten())

    batch = [torch.randint(size["vocabulary"], (count, size["tokens"])) for _ in range(2)]
    return Subject(network, batch, loss, "transformers " + transformers.__version__)


NETWORKS: Dict[str, Callable[[Dict[str, Any], int], Subject]] = {
    "resnet_50": resnet_50,
    "bert_base": bert_base,
    "gpt_2": gpt_2,
}


def stepper(name: str, order: Dict[str, Any]) -> Tuple[Callable[[], None], Subject]:
    """Return what does one step, and of what."""
    device, fast, precision = torch.device(order["device"]), order["fast"], order["precision"]
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True
    subject = NETWORKS[name](order["size"], order["batch"])
    layout = torch.channels_last if fast and name == "resnet_50" else torch.contiguous_format
    network = subject.network.to(device, memory_format=layout).train()
    batch = [one.to(device, memory_format=layout) if one.dim() == 4 else one.to(device) for one in subject.batch]
    fused = {"fused": True} if fast else {}
    rule: Any = torch.optim.AdamW(network.parameters(), lr=1e-4, weight_decay=0.1, **fused)
    if name == "resnet_50":
        rule = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, **fused)
    loss = torch.compile(subject.loss) if fast else subject.loss
    cast: Any = contextlib.nullcontext
    if precision == "amp-bf16":
        cast = lambda: torch.autocast(device.type, dtype=torch.bfloat16)  # noqa: E731

    def step() -> None:
        rule.zero_grad()
        with cast():
            found = loss(*batch)
        found.backward()
        rule.step()

    return step, subject


def rate(step: Callable[[], None], wait: Callable[[], None], warm_up_s: float, seconds: float) -> float:
    """Return steps a second after ``warm_up_s``, of the later three quarters; the device is waited for now and then."""

    def chunk(number: int) -> float:
        begun = time.perf_counter()
        for _ in range(number):
            step()
        wait()
        return time.perf_counter() - begun

    chunk(2)
    number = max(1, round(CHUNK_S / max(min(chunk(1), chunk(1)), 1e-4)))
    warmed = 0.0
    while warmed < warm_up_s:
        warmed += chunk(number)
    chunks: List[float] = []
    while sum(chunks) < seconds or len(chunks) < 4:
        chunks.append(chunk(number))
    later = chunks[len(chunks) // 4 :]
    return number * len(later) / sum(later)


def main(name: str, order: Dict[str, Any]) -> None:
    """Train for so long, and print."""
    step, subject = stepper(name, order)
    wait = torch.cuda.synchronize if order["device"] == "cuda" else lambda: None
    found = rate(step, wait, order["warm_up_s"], order["seconds"])
    parameters = sum(one.numel() for one in subject.network.parameters())
    print(json.dumps({"samples_per_s": order["batch"] * found, "parameters": parameters, "of": subject.of}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
