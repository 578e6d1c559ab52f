"""Measure latency, rate and all-reduce time between ranks: on the server that there is, else on an embedded one.

tbd netbench --topology 2x1 --fabric ethernet --max-bytes 16MiB
"""

import argparse
import os
import re
from itertools import groupby
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.embedded import some_server, wait_for_its_end
from orchestrator.cli.rest.waiting import code_of

_FIELDS = ("topology", "fabric", "library", "device", "max_bytes", "budget_s", "repeats")  # of the request
_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topology", metavar="MxD", default="1x2", help="machines x devices (default 1x2)")
    parser.add_argument("--fabric", default="ethernet", help="ethernet, infiniband or roce (default ethernet)")
    parser.add_argument("--library", default="auto", help="auto, gloo, nccl or mpi (default auto)")
    parser.add_argument("--device", default="auto", help="auto, cuda or cpu (default auto)")
    parser.add_argument("--max-bytes", type=_bytes, metavar="SIZE", help="largest message (default 256MiB)")
    parser.add_argument(
        "--budget", dest="budget_s", type=float, metavar="SECONDS", help="for the measurements of a run (default 300)"
    )
    parser.add_argument("--repeats", type=int, help="fresh processes (default 1)")
    parser.add_argument("--json", action="store_true", help="print what was found as REST answers it")


def _bytes(text: str) -> int:
    match = re.fullmatch(r"([0-9]+)\s*([KMG]iB|B|)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: they look like 65536, 64KiB or 16MiB")
    return int(match[1]) * _UNITS[match[2]]


def execute(options: argparse.Namespace) -> int:
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
    from orchestrator.reports import table

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
