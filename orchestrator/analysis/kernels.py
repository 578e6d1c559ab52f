"""The kernel table: one shape for all frameworks, and what kind of work each kernel does.

TBD's Tables V and VI (Zhu et al., IISWC 2018) are a query over it: ``longest_below_average``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.measurement import Measurement
from orchestrator.domain.profile import Kernel, KernelTable
from workers.trainer import protocol

NO_COUNTERS_ON_CPU = "a CPU device has no counter of operations per operator"
NO_COUNTERS = "no hardware counters were read"
NOT_COUNTED = "the hardware counters tell nothing of this kernel"

# A kind and what names of its kernels contain. The first that matches counts, so what is said most clearly stands
# first: communication and copies before the arithmetic that their names may also hold. Letters of any case.
Kinds = Sequence[tuple[str, str]]

# GPU kernels bear the names of cuDNN, cuBLAS, CUTLASS, NCCL and the CUDA run-time, whichever framework starts them. The
# names of the rest are the framework's own; its table below comes after this one.
GPU_KINDS: Kinds = (
    ("communication", r"nccl|all_?reduce|all_?gather|reduce_?scatter|horovod"),
    ("memory", r"^\[?(cuda )?mem(cpy|set)|memcpy|memset"),
    ("normalisation", r"batch_?norm|bn_(fw|bw)|layer_?norm|group_?norm|welford|normalization"),
    (
        "convolution",
        r"conv|fprop|dgrad|wgrad|winograd|implicit_?(precomp_)?gemm|cudnn.*(xmma|infer|nhwc|nchw)|im2col|col2im",
    ),
    ("matrix product", r"gemm|gemv|cutlass|nvjet|matmul|dot_kernel|splitk|(lstm|gru|rnn)"),
    ("other", r"softmax|pool|nll|cross_?entropy|reduce_kernel|reduction|sort|topk|argmax|philox|random|distribution"),
    ("memory", r"copy|cat_?array|transpose|permute|gather|scatter|embedding|index|slice|pad|fill|concat|nchwtonhwc"),
    ("element-wise", r"elementwise|element_wise|multi_tensor|relu|sigmoid|tanh|dropout|bias|add|mul|sgd|momentum|adam"),
)

PYTORCH_KINDS: Kinds = (
    ("communication", r"^(gloo|nccl|c10d|mpi)\b|all_?reduce|broadcast_coalesced|all_?gather"),
    ("normalisation", r"batch_norm|layer_norm|group_norm|instance_norm"),
    ("convolution", r"conv"),
    ("matrix product", r"\b(add|b|ba|s)?mm\b|addmv|\bmv\b|matmul|linear|bmm|lstm|gru|rnn|\bdot\b|scaled_dot_product"),
    (
        "memory",
        r"copy|clone|\bto\b|_to_|empty|resize|zero|fill|\bcat\b|stack|contiguous|transpose|permute|gather|scatter|index"
        r"|embedding|pad|slice|\bset_|as_strided|narrow|select|view|reshape|expand|detach|unsqueeze|squeeze|pin_memory",
    ),
    (
        "other",
        r"pool|softmax|nll|cross_entropy|loss|\bsum\b|\bmean\b|\bmax\b|\bmin\b|norm\b|random|uniform|normal|sort",
    ),
    (
        "element-wise",
        r"_foreach|relu|sigmoid|tanh|gelu|silu|hardtanh|threshold|dropout|bernoulli|"
        r"\b(add|sub|mul|div|neg|exp|log|sqrt|pow|abs|clamp|where|eq|ne|lt|gt|le|ge|rsub|addc|lerp)(_\w*|mul|div)?\b",
    ),
)

TENSORFLOW_KINDS: Kinds = (
    ("communication", r"collective|nccl|allreduce|horovod|^(_?send|_?recv|_?hostsend|_?hostrecv)"),
    ("normalisation", r"batchnorm|layernorm|batchnormalization"),
    ("convolution", r"conv\d?d|conv2d|convbackprop|convolution"),
    ("matrix product", r"matmul|einsum|lstm|gru|rnn|tensordot"),
    (
        "memory",
        r"transpose|concat|\bpad|slice|gather|scatter|copy|identity|reshape|assignvariable|readvariable|fill|zeroslike"
        r"|split|pack|unpack|tile|cast|const|squeeze|expanddims|snapshot|arrayread|tensorlist|variableop|_arg|_retval",
    ),
    ("other", r"pool|softmax|crossentropy|^sum$|^mean$|^max$|^min$|^prod$|argmax|random|l2loss|all|any|iterator"),
    (
        "element-wise",
        r"relu|sigmoid|tanh|^_?(add|sub|mul|div|realdiv|rsqrt|sqrt|square|neg|exp|log|maximum|minimum|select|greater|less"
        r"|equal|pow|floormod|floordiv)|addn|biasadd|apply(momentum|keras|gradient|adam)|assign(add|sub)|dropout|fused\w*el",
    ),
)

MXNET_KINDS: Kinds = (
    ("communication", r"kvstore|horovod|push|pull|all_?reduce"),
    ("normalisation", r"batchnorm|batch_norm|layernorm|layer_norm|instancenorm|groupnorm"),
    ("convolution", r"convolution|deconvolution"),
    ("matrix product", r"fullyconnected|fully_connected|\bdot\b|batch_dot|linalg_gemm|\brnn\b|_backward_rnn"),
    (
        "memory",
        r"copy|concat|slice|transpose|reshape|flatten|pad|zeros|ones|_full|setvalue|deletevariable|embedding|take|stack"
        r"|expand_dims|squeeze|swapaxes|identity|_set_value|broadcast_to|reorder",
    ),
    ("other", r"pool|softmax|loss|pick|^_?(sum|mean|max|min|norm)$|_backward_(sum|mean|pick)|random|uniform|normal"),
    (
        "element-wise",
        r"activation|relu|sigmoid|tanh|elemwise|broadcast_|_plus|_minus|_mul|_div|_update|dropout|leakyrelu|clip|sqrt"
        r"|square|_scalar|add_n|_grad_add|_negative|cast",
    ),
)

CNTK_KINDS: Kinds = (
    ("communication", r"aggregat|allreduce|mpi"),
    ("normalisation", r"batchnormalization|layernormalization|meanvariance"),
    ("convolution", r"convolution"),
    ("matrix product", r"\btimes|transposetimes|optimizedrnn|rnnstack"),
    ("memory", r"splice|slice|reshape|transposedimensions|copy|gather|pad|inputvalue|learnableparameter|\binput\b"),
    ("other", r"pool|softmax|crossentropy|classificationerror|reduceelements|reduce"),
    (
        "element-wise",
        r"relu|rectifiedlinear|sigmoid|tanh|plus|minus|elementtimes|dropout|exp|log|sqrt|clip|update|sgd|momentum|pass",
    ),
)

SLEEP_KINDS: Kinds = ()

KINDS: Mapping[str, Kinds] = {
    "pytorch": PYTORCH_KINDS,
    "tensorflow": TENSORFLOW_KINDS,
    "mxnet": MXNET_KINDS,
    "cntk": CNTK_KINDS,
    "sleep": SLEEP_KINDS,
}


def kind_of(framework: str, name: str, gpu: bool = False) -> str:
    """Return the kind of work that a kernel or operator of that name does; ``other`` where no table knows it."""
    tables = (GPU_KINDS, KINDS.get(framework, ())) if gpu else (KINDS.get(framework, ()),)
    for table in tables:
        for kind, pattern in table:
            if re.search(pattern, name, re.IGNORECASE):
                return kind
    return "other"


def table_of(
    rank: int,
    data: Mapping[str, Any],
    framework: str,
    gpu: bool,
    counted: Mapping[str, float | None] | None = None,
    uncounted: str | None = None,
) -> KernelTable:
    """Return the kernel table of ``rank`` from the data of its ``kernels`` event, the longest kernel first.

    Args:
        counted: kernel's name -> FP32 utilisation, or None, where hardware counters were read.
        uncounted: why none were, where that is known.

    Raises:
        ValueError: a number in it cannot be.
    """
    found = [(str(name), int(calls), protocol.number(total_s)) for name, calls, total_s in data["rows"]]
    wrong = [name for name, calls, total_s in found if calls < 1 or not 0 <= total_s < float("inf")]
    if wrong:
        raise ValueError(f"kernels with numbers that cannot be: {', '.join(wrong[:3])}")
    whole_s = sum(total_s for _, _, total_s in found)
    reason = NOT_COUNTED if counted else uncounted or (NO_COUNTERS if gpu else NO_COUNTERS_ON_CPU)
    rows = []
    for name, calls, total_s in found:
        ratio, kind = (counted or {}).get(name), kind_of(framework, name, gpu)
        share = total_s / whole_s if whole_s else 0.0
        rows.append(Kernel(name, kind, calls, total_s, share, ratio, reason if ratio is None else None))
    return KernelTable(
        rank=rank,
        method=str(data["method"]),
        steps=int(data["steps"]),
        elapsed_s=protocol.number(data["elapsed_s"]),
        active_s=protocol.number(data["active_s"]),
        rows=tuple(sorted(rows, key=lambda row: (-row.total_s, row.name))),
    )


def by_kind(rows: Iterable[Kernel]) -> dict[str, float]:
    """Return kind -> share of the time, the largest first."""
    shares: dict[str, float] = {}
    for row in rows:
        shares[row.kind] = shares.get(row.kind, 0.0) + row.share_ratio
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def longest_below_average(rows: Sequence[Kernel], count: int = 5) -> tuple[float | None, list[Kernel]]:
    """Return (the average utilisation, the longest kernels below it): TBD's Tables V and VI.

    The average is over time, of the kernels whose utilisation is known; None, and no kernels, where none is.
    """
    known = [(row, row.fp32_utilization_ratio) for row in rows if row.fp32_utilization_ratio is not None]
    seconds = sum(row.total_s for row, _ in known)
    if seconds <= 0:
        return None, []
    average = sum(ratio * row.total_s for row, ratio in known) / seconds
    below = sorted((row for row, ratio in known if ratio < average), key=lambda row: -row.total_s)
    return average, below[:count]


@dataclass(frozen=True)
class KernelChange:
    """One kernel of two runs: seconds per step and rank before and after; None where it does not occur."""

    name: str
    kind: str
    before_s: float | None
    after_s: float | None

    @property
    def difference_s(self) -> float:
        return (self.after_s or 0.0) - (self.before_s or 0.0)

    @property
    def change(self) -> str:
        """``appeared``, ``vanished``, ``slower``, ``faster`` or ``equal``."""
        if self.before_s is None:
            return "appeared"
        if self.after_s is None:
            return "vanished"
        return "slower" if self.difference_s > 0 else "faster" if self.difference_s < 0 else "equal"


def difference(before: Sequence[KernelTable], after: Sequence[KernelTable]) -> list[KernelChange]:
    """Return what has changed from one run's kernel tables (of its ranks) to another's, the largest change first."""
    old, new = _per_step(before), _per_step(after)
    kinds = {row.name: row.kind for table in (*before, *after) for row in table.rows}
    found = [KernelChange(name, kinds[name], old.get(name), new.get(name)) for name in sorted({*old, *new})]
    return sorted(found, key=lambda one: -abs(one.difference_s))


def _per_step(tables: Sequence[KernelTable]) -> dict[str, float]:
    """Seconds per step, mean over the ranks, by kernel."""
    steps = sum(table.steps for table in tables)
    totals: dict[str, float] = {}
    for table in tables:
        for row in table.rows:
            totals[row.name] = totals.get(row.name, 0.0) + row.total_s
    return {name: total_s / steps for name, total_s in totals.items()} if steps else {}


def other_share(tables: Sequence[KernelTable]) -> Measurement | None:
    """Return how much of the kernels' time no table of kinds knows: what a share by kind leaves open."""
    rows = [row for table in tables for row in table.rows]
    whole_s = sum(row.total_s for row in rows)
    if whole_s <= 0:
        return None
    return Measurement(
        metric="kernels_other_ratio",
        value=sum(row.total_s for row in rows if row.kind == "other") / whole_s,
        unit="1",
        method="share of the kernels' time whose kind is `other`",
        scope=f"{tables[0].steps} profiled steps after the timed phase",
    )
