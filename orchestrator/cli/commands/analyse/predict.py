"""Predict the cells of a spec before they are run, or how much of the gradients' exchange a trace of layers hides.

tbd predict suites/scaling.yaml --until 80%
tbd predict SPEC.yaml --fabric '100 Gbit/s, 2 us'
tbd predict --judged
tbd predict --trace trace.csv --exchange log.csv --beside idle --bucket 25MiB

A spec is predicted from profiled runs of one device and from netbenches; what lacks is named with the command that
supplies it. A trace needs no server: FILE is a CSV file with the columns layer, elements, backward_us, allreduce_us;
LOG has bytes, latency_us. What is computed, and where it fails: docs/read_results/s-sgd-model.md.
"""

import argparse
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.s_sgd.labels import Algorithm, Beside, Merger
from orchestrator.cli.exits import DONE, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import ServerProblem
from orchestrator.cli.spec import csv_file
from orchestrator.cli.spec.sizes import size_bytes

if TYPE_CHECKING:
    from orchestrator.analysis.s_sgd.prediction import Prediction

# Option -> those that it says more of, one of them.
_NEEDS = {
    "fabric": ("spec",),
    "until": ("spec",),
    "exchange": ("trace",),
    "bucket": ("trace",),
    "beside": ("spec", "exchange"),
    "first_bucket": ("bucket",),
    "by": ("bucket",),
    "to": ("nodes",),
    "nodes": ("to",),
    "algorithm": ("to",),
}
# Fields of the request that are no fields of the spec.
_ASKED = ("fabric", "until", "beside")


def configure(parser: argparse.ArgumentParser) -> None:
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("spec", metavar="SPEC.yaml", nargs="?", help="predict each cell of this spec")
    asked.add_argument("--judged", action="store_true", help="how near earlier predictions came to what was measured")
    asked.add_argument("--trace", metavar="FILE", help="one iteration, layer by layer")
    parser.add_argument("--fabric", metavar="TEXT", help="between nodes, as nobody has it: '100 Gbit/s, 2 us'")
    parser.add_argument("--until", metavar="PERCENT", type=_ratio, help="how many nodes keep this efficiency")
    parser.add_argument("--exchange", metavar="LOG", help="times of exchanges by size: these instead of the trace's")
    parser.add_argument(
        "--beside",
        choices=list(Beside),
        help="what LOG was measured beside (default unstated); of a SPEC.yaml: which exchanges count",
    )
    parser.add_argument("--bucket", type=size_bytes, metavar="SIZE", help="merge gradients up to SIZE")
    parser.add_argument("--by", choices=list(Merger), help="by whose rule they are merged (default ddp, PyTorch's)")
    parser.add_argument(
        "--first-bucket", type=size_bytes, metavar="SIZE", help="of the first bucket; DDP's own is 1MiB with 25MiB"
    )
    parser.add_argument("--nodes", type=int, metavar="N", help="nodes of the trace and of LOG …")
    parser.add_argument("--to", type=int, metavar="N", help="… and those to predict for")
    parser.add_argument("--algorithm", choices=list(Algorithm), help="how these sum gradients (default ring)")
    parser.add_argument("--json", action="store_true", help="print what was found, for scripts")


def execute(options: argparse.Namespace) -> int:
    for name, others in _NEEDS.items():
        if getattr(options, name) is not None and all(getattr(options, other) is None for other in others):
            needed = " or ".join(map(_option, others))
            raise CommandError(f"{_option(name)} goes with {needed} only")
    if options.by == Merger.HOROVOD and options.first_bucket is not None:
        raise CommandError("--first-bucket is DDP's: Horovod's buckets have one threshold")
    if options.trace is None:
        return _of_cells(options)
    found = _predicted(options)
    if options.json:
        output.print_json(_as_json(options, found))
    else:
        _print(options, found)
    return DONE


def _option(name: str) -> str:
    return "a SPEC.yaml" if name == "spec" else f"--{name.replace('_', '-')}"


def _ratio(text: str) -> float:
    """80% or 0.8."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text}: an efficiency is above 0% and below 100%")
    return value


def _of_cells(options: argparse.Namespace) -> int:
    """Predict a spec, or show what became of predictions."""
    from orchestrator.cli.rest.embedded import some_server
    from orchestrator.cli.rest.locate import look
    from orchestrator.cli.spec.spec_file import SpecFile
    from orchestrator.reports.tables import prediction

    if options.judged:
        found = look().pages("/predictions")
        told = prediction.judged_text(found["items"], output.width())
    else:
        file = SpecFile(options.spec)
        asked = {name: getattr(options, name) for name in _ASKED if getattr(options, name) is not None}
        with some_server() as (client, _):
            try:
                found = client.post("/predictions", file.spec, **asked)
            except ServerProblem as problem:
                if any(item["pointer"].lstrip("/") in _ASKED for item in problem.document.get("errors") or []):
                    raise  # the file is not to blame
                raise file.explain(problem) from None
        told = prediction.text(found, output.width())
    if options.json:
        output.print_json(found)
    else:
        print(told)
    return DONE


def _predicted(options: argparse.Namespace) -> "Prediction":
    from orchestrator.analysis.s_sgd import communication, prediction, tables

    trace = csv_file.read(options.trace, tables.read_trace)
    log = None
    if options.exchange is not None:
        read = csv_file.read(options.exchange, tables.read_log)
        log = communication.fit(read.sizes, read.seconds, Beside(options.beside or Beside.UNSTATED)).function
    merging = None
    if options.bucket is not None:
        merging = prediction.Merging(options.bucket, options.first_bucket, Merger(options.by or Merger.DDP))
    algorithm = Algorithm(options.algorithm or Algorithm.RING)
    nodes = None if options.to is None else prediction.Nodes(options.nodes, options.to, algorithm)
    try:
        return prediction.predict(trace, log, merging, nodes)
    except prediction.NotPredictable as error:
        raise CommandError(f"{options.trace}: {error}") from None
    except ValueError as error:  # a number of nodes
        raise CommandError(str(error)) from None


def _as_json(options: argparse.Namespace, found: "Prediction") -> dict[str, Any]:
    return {
        "sum_backward_s": found.sum_backward_s,
        "sum_exchange_s": found.sum_exchange_s,
        "end_of_exchange_s": found.end_of_exchange_s,
        "exposed_s": found.exposed_s,
        "exchange_ratio": found.exchange_ratio,
        "exchange_bytes": list(found.exchanges),
        "times_from": _source(options, found),
        "measured_beside": found.function.beside if found.function else Beside.TRAINING,
        "beyond_measured_sizes": found.beyond,
        "nodes": options.to if options.to is not None else options.nodes,
        "algorithm": options.algorithm or Algorithm.RING if options.to is not None else None,
    }


def _source(options: argparse.Namespace, found: "Prediction") -> str:
    if options.exchange is not None:
        return "log"
    return "trace" if found.function is None else "fit of the trace"


def _print(options: argparse.Namespace, found: "Prediction") -> None:
    from orchestrator.reports.drawing import table
    from orchestrator.reports.numbers import memory, plain

    count = len(found.exchanges)
    what = f"exchange of {memory(sum(found.exchanges))} in {count} part{'' if count == 1 else 's'}, added up"
    rows = [
        ["backward pass", _ms(found.sum_backward_s)],
        [what, _ms(found.sum_exchange_s)],
        ["end of the last part, from the start of the backward pass", _ms(found.end_of_exchange_s)],
        ["exposed", _ms(found.exposed_s)],
    ]
    print(table.text(["wait-free backpropagation", "time"], rows, output.width()))
    told = _as_json(options, found)
    output.print_dim(
        f"Times of exchanges are from the {told['times_from']}, measured beside: {told['measured_beside']}."
    )
    if found.exchange_ratio is not None:
        told_by = "log" if options.exchange is not None else "fit"
        output.print_dim(
            f"The trace's own exchanges took {plain(found.exchange_ratio, 3)} times what the {told_by} says."
        )
    if found.beyond:
        output.print_dim(f"{found.beyond} of {count} are outside of the sizes that were measured.")
    if options.to is not None:
        output.print_dim(f"On {options.to} nodes instead of {options.nodes}, by the formula of {told['algorithm']}.")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
