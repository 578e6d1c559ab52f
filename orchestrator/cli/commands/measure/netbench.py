"""Measure latency, rate and all-reduce time between ranks: on the server that there is, else on an embedded one.

tbd netbench --topology 2x1 --fabric ethernet --max-bytes 16MiB

With --fit LOG nothing is measured: latency and bandwidth, by segments of sizes, are fitted to a CSV file with the
columns bytes, latency_us (docs/read_results/s-sgd-model.md).
"""

import argparse
import os
import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.s_sgd.labels import Beside
from orchestrator.cli.exits import DONE, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.embedded import some_server, wait_for_its_end
from orchestrator.cli.rest.waiting import code_of
from orchestrator.cli.spec import csv_file
from orchestrator.cli.spec.sizes import size_bytes

if TYPE_CHECKING:
    from orchestrator.analysis.s_sgd.communication import Fit

_FIELDS = ("topology", "fabric", "library", "device", "max_bytes", "budget_s", "repeats")  # of the request


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topology", metavar="MxD", default="1x2", help="machines x devices (default 1x2)")
    parser.add_argument("--fabric", default="ethernet", help="ethernet, infiniband or roce (default ethernet)")
    parser.add_argument(
        "--library",
        default="auto",
        help="auto (default), gloo, nccl, mpi, grpc, mirrored, kvstore-device, kvstore-dist-sync, "
        "kvstore-dist-device-sync, horovod-pytorch, horovod-tensorflow or horovod-mxnet",
    )
    parser.add_argument("--device", default="auto", help="auto, cuda or cpu (default auto)")
    parser.add_argument("--max-bytes", type=size_bytes, metavar="SIZE", help="largest message (default 256MiB)")
    parser.add_argument(
        "--budget", dest="budget_s", type=float, metavar="SECONDS", help="for the measurements of a run (default 300)"
    )
    parser.add_argument("--repeats", type=int, help="fresh processes (default 1)")
    parser.add_argument("--fit", metavar="LOG", help="fit latency and bandwidth to measured times; needs no server")
    parser.add_argument("--beside", choices=list(Beside), default=Beside.UNSTATED, help="what LOG was measured beside")
    parser.add_argument("--json", action="store_true", help="print what was found as REST answers it")


def execute(options: argparse.Namespace) -> int:
    if options.fit is not None:
        return _fit(options)
    with some_server(lambda: _check_here(options)) as (client, is_embedded):
        if is_embedded:
            _refuse_what_would_wait_for_ever(client, options.topology)
        experiment = client.post("/netbench", _body(options), key=os.urandom(16).hex())
        ended = wait_for_its_end(client, experiment, is_embedded)
        found = client.pages("/netbench", experiment=experiment["id"])
        if options.json:
            output.print_json(found)
        else:
            _print(found["items"])
            for run in client.pages(path_of("experiments", experiment["id"], "runs"))["items"]:
                for note in (run["validity"] or {}).get("notes") or []:
                    output.say(f"{run['id']}: {note}")
        return code_of(ended)


def _fit(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from orchestrator.analysis.s_sgd import communication, tables

    log = csv_file.read(options.fit, tables.read_log)
    found = communication.fit(log.sizes, log.seconds, Beside(options.beside))
    if options.json:
        told = {"segments": [asdict(one) for one in found.function.segments], "sizes": len(log.sizes)}
        output.print_json({**told, "measured_beside": found.function.beside, **_errors(found)})
    else:
        _print_fit(found, len(log.sizes))
    return DONE


def _errors(found: "Fit") -> dict[str, Any]:
    out = found.left_out
    told = out and {
        "mean_absolute_percentage_error": out.error,
        "within_segments": out.error_within_segments,
        "between_segments": out.between,
    }
    return {"mean_absolute_percentage_error": found.mean_absolute_percentage_error, "left_out": told}


def _print_fit(found: "Fit", sizes: int) -> None:
    from orchestrator.reports.drawing import table
    from orchestrator.reports.numbers import duration, memory, percent

    rows = [
        [
            memory(one.from_bytes),
            memory(one.to_bytes),
            duration(one.latency_s),
            "does not grow" if one.bytes_per_s is None else memory(one.bytes_per_s) + "/s",
        ]
        for one in found.function.segments
    ]
    print(table.text(["from", "to", "latency", "rate"], rows, output.width()))
    told = f"Mean absolute error {percent(found.mean_absolute_percentage_error, 3)} at {sizes} sizes"
    if out := found.left_out:
        within = f"{percent(out.error_within_segments, 3)} without the {out.between} that are then between segments"
        told += f"; {percent(out.error, 3)} where each third was left out, {within}"
    output.print_dim(f"{told}. Measured beside: {found.function.beside}.")


def _check_here(options: argparse.Namespace) -> None:
    from orchestrator.cli.rest import offline

    offline.check_netbench(_body(options))


def _body(options: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name in _FIELDS if (value := getattr(options, name)) is not None}


def _refuse_what_would_wait_for_ever(client: Client, topology: str) -> None:
    """An embedded server has this machine only. What is no topology is refused by the service."""
    match = re.fullmatch(r"([0-9]+)x([0-9]+)", topology)
    nodes = client.get("/nodes")["items"]
    if not match or any(node["state"] != "available" for node in nodes):
        return
    wanted, each = int(match[1]), int(match[2])
    fitting = [node for node in nodes if len(node["devices"]) >= each]
    if len(fitting) < wanted:
        have = ", ".join(f"{node['name']} with {len(node['devices'])} devices" for node in nodes) or "no node"
        raise CommandError(f"this machine cannot run {topology}: there is {have}; TBD_CPU_DEVICES divides its cores")


def _print(items: list[dict[str, Any]]) -> None:
    from orchestrator.reports.drawing import table

    if not items:
        output.say("nothing was measured")
        return
    headers = ["operation", "ranks", "cores", "size", "times", "least", "median", "90 %", "rate", "bus rate"]
    for run_id, own in groupby(items, key=lambda item: item["run_id"]):
        rows = list(own)
        print(table.text(headers, [_row(item) for item in rows], output.width()))
        first = rows[0]
        words = [run_id, first["library"], first["topology"], first["fabric"] or "within one node"]
        words += [] if first["valid"] else ["disturbed (tbd show tells by what)"]
        print(output.coloured(", ".join(words), "dim"))


def _row(item: dict[str, Any]) -> list[str]:
    from orchestrator.reports.numbers import duration, memory

    ranks = "-".join(map(str, item["ranks"])) if len(item["ranks"]) == 2 else f"all {len(item['ranks'])}"
    return [
        item["operation"].replace("_", " "),
        ranks,
        "busy" if item["busy_cores"] else "idle",
        memory(item["bytes"]),
        str(item["repetitions"]),
        duration(item["duration_min_s"]),
        duration(item["duration_p50_s"]),
        duration(item["duration_p90_s"]),
        memory(item["algorithm_bytes_per_s"]) + "/s",
        memory(item["bus_bytes_per_s"]) + "/s",
    ]
