"""The fields of a spec, each declared once: what plans, series, answers, tables, exports and commands know of it.

What a field takes, its default and what it means stand in ``orchestrator.domain.asked.spec``. Commands that only ask a
server read this table too: it imports nothing but the standard library.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """The option of the command line that sets a field.

    ``value``: the type of its one value; None: it takes a list, and may be repeated. ``has_numbers``: what looks like a
    number in its list is one.
    """

    flags: tuple[str, ...]
    help: str | None = None
    metavar: str | None = None
    value: type[int] | type[float] | type[str] | None = None
    has_numbers: bool = False
    choices: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Field:
    """One field of a spec, or one that a plan has beside them.

    ``axis``: each of several values makes further cells. ``planned``: a plan has it, under the same name. ``workload``:
    it keys a series, and is equal where two results are compared. ``told``: a row of results has it among its axes.
    ``heading``: of its column in tables of results; None: it has none. ``word`` stands before its value where that
    alone would not say what it is. ``exported``: what its column of an export means, None: it has none; ``unit`` is
    that column's.
    """

    name: str
    axis: bool = False
    planned: bool = True
    workload: bool = False
    told: bool = False
    heading: str | None = None
    word: str = ""
    exported: str | None = None
    unit: str | None = None
    option: Option | None = None


def _axis(name: str, exported: str, option: Option | None = None, word: str = "", heading: str = "") -> Field:
    """What most axes are: part of the workload, told with its results, and a column of tables."""
    return Field(
        name,
        axis=True,
        workload=True,
        told=True,
        heading=heading or name,
        word=word,
        exported=exported,
        option=option,
    )


FIELDS = (
    Field("name", planned=False, option=Option(("--name",), "name of the experiment", value=str)),
    _axis("model", "the model"),
    Field(
        "options",
        workload=True,
        told=True,
        heading="options",
        exported="options of model and adapter, an object",
        option=Option(("--option",), "an option of the model", "KEY=VALUE"),
    ),
    _axis(
        "framework", "the framework", Option(("-f", "--framework"), "default pytorch, or what the model is there for")
    ),
    _axis("strategy", "how ranks exchange gradients; what `auto` stood for", Option(("--strategy",), "default auto")),
    Field(
        "interpreter",
        axis=True,
        told=True,
        heading="interpreter",
        exported="the pinned environment; what `auto` stood for",
        option=Option(("--interpreter",), "default auto"),
    ),
    _axis(
        "topology",
        "machines x devices per machine",
        Option(("--topology",), "machines x devices (default 1x1)", "MxD"),
        word="topology",
    ),
    _axis(
        "fabric",
        "what carries gradients between machines; none for one machine",
        Option(("--fabric",), "ethernet, infiniband or roce (default ethernet)"),
        word="fabric",
    ),
    _axis("device", "cuda or cpu", Option(("--device",), "auto, cuda or cpu (default auto)")),
    _axis("precision", "the arithmetic", Option(("--precision",), "default fp32")),
    Field(
        "per_device_batch_size",
        axis=True,
        workload=True,
        told=True,
        heading="batch",
        word="batch",
        exported="samples of a device in a step",
        unit="samples",
        option=Option(
            ("--batch",), "batch size per device (default 4); max: the largest that fits", "N", has_numbers=True
        ),
    ),
    Field(
        "global_batch_size",
        axis=True,
        workload=True,
        told=True,
        word="batch",
        exported="samples of all devices in a step",
        unit="samples",
        option=Option(("--global-batch",), "batch size over all devices instead", "N", has_numbers=True),
    ),
    _axis(
        "data", "synthetic, or the dataset", Option(("--data",), "synthetic, or a dataset's name (default synthetic)")
    ),
    # No field of a spec. Another folder that a person registered under the same name is another series.
    Field("data_sha256", workload=True, exported="which files, where the dataset was registered on nodes"),
    _axis(
        "data_on",
        "where synthetic batches lie: host, pinned or device; what `auto` stood for",
        Option(("--data-on",), "auto, host, pinned or device: where synthetic batches lie"),
        word="data on",
        heading="data on",
    ),
    _axis("size", "full, small or tiny", Option(("--size",), "full, small or tiny (default full)")),
    _axis(
        "seed", "the seed", Option(("--seed",), "of weights and data (default 1)", "N", has_numbers=True), word="seed"
    ),
    Field("nodes", planned=False, told=True, heading="nodes"),
    # The parts of ``nodes``; the others are called ``names`` and ``devices`` there.
    Field(
        "gpu_model",
        axis=True,
        word="GPU",
        exported="the GPUs that were asked for",
        option=Option(("--gpu-model",), "GPUs whose name has this (default any)", "NAME"),
    ),
    Field("node_names", exported="the nodes that were asked for, a list"),
    Field("device_ids"),
    Field("placement", told=True, heading="placement", exported="any, or same-devices"),
    Field(
        "exclusive",
        workload=True,
        told=True,
        exported="what a run has for itself: node, or device",
        option=Option(
            ("--exclusive",), "of a run: its nodes (default), or its devices", value=str, choices=("node", "device")
        ),
    ),
    Field("mode", workload=True, told=True, heading="mode", exported="throughput or convergence"),
    Field("target", workload=True, told=True, heading="target"),
    Field("evaluate_every", workload=True, told=True, heading="evaluated every"),
    Field(
        "profile",
        told=True,
        heading="profile",
        exported="the profiles that were asked for, a list",
        option=Option(("--profile",), "memory,kernels,layers: all of them in each run, no axis", "LIST"),
    ),
    Field("repeats", planned=False, option=Option(("--repeats",), value=int)),
    Field(
        "precision_target",
        planned=False,
        option=Option(
            ("--precision-target",), "half-width of the 95 %% interval to repeat for (0.01: 1 %%)", "RATIO", float
        ),
    ),
    Field("max_repeats", planned=False, option=Option(("--max-repeats",), value=int)),
    Field("warm_up_s", workload=True, told=True, exported="seconds of untimed steps before the timed ones", unit="s"),
    Field("min_measure_s", option=Option(("--min-measure",), "of timed steps of a run, at least", "SECONDS", float)),
    Field("max_measure_s", option=Option(("--max-measure",), "of timed steps of a run, at most", "SECONDS", float)),
    Field("max_steps", option=Option(("--max-steps",), value=int)),
    Field("max_epochs"),
    Field("timeout_s", option=Option(("--timeout",), "of one attempt", "SECONDS", float)),
    Field("exchange_timeout_s"),
    Field("deadline_s", planned=False),
    Field(
        "device_time_budget_s",
        planned=False,
        option=Option(("--device-time-budget",), "device-seconds of it all", "SECONDS", float),
    ),
    Field(
        "memory_limit_bytes",
        exported="limit of memory of one CPU device",
        unit="B",
        option=Option(("--memory-limit",), "of a CPU device", "BYTES", int),
    ),
    Field("priority", planned=False),
    Field("labels", planned=False, option=Option(("--label",), metavar="KEY=VALUE")),
    Field("exclude", planned=False),
)
BY_NAME = {field.name: field for field in FIELDS}


def in_order(fields: Iterable[Field], first: str) -> tuple[str, ...]:
    """The names of ``fields``: those of ``first`` as they stand there, then the others as they stand in the table."""
    named = first.split()
    return (*named, *(field.name for field in fields if field.name not in named))


# As a sweep nests them, the outermost first.
AXES = in_order(
    (field for field in FIELDS if field.axis),
    "model framework strategy interpreter device precision size data data_on topology fabric per_device_batch_size "
    "global_batch_size gpu_model seed",
)
PLANNED = tuple(field.name for field in FIELDS if field.planned)
_RESOLVED = ("global_batch_size", "data_sha256")  # these follow from others
_OF_NODES = ("gpu_model", "node_names", "device_ids")
# What a spec that repeats a plan has from it under the same name.
REPEATED = tuple(name for name in PLANNED if name not in (*_RESOLVED, *_OF_NODES))
