"""Find what devices can do at best: on the server that there is, else on an embedded one.

tbd calibrate --topology 1x1
tbd calibrate --list
"""

import argparse
import os
from typing import Any

from orchestrator.cli.exits import DONE
from orchestrator.cli.printing import output
from orchestrator.cli.rest.embedded import some_server, wait_for_its_end
from orchestrator.cli.rest.locate import look
from orchestrator.cli.rest.waiting import code_of

_FIELDS = ("topology", "device", "arithmetics", "shapes", "load_s", "measure_s", "repeats")  # of the request


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--topology", metavar="MxD", default="1x1", help="devices under load at once (default 1x1)")
    add("--device", default="auto", help="auto, cuda or cpu (default auto)")
    add("--arithmetic", dest="arithmetics", metavar="LIST", help="fp32, tf32, bf16, fp16 with commas (default: all)")
    add("--shapes", metavar="LIST", help="1024,4096x1024x1024 (default: a stated set)")
    add("--load", dest="load_s", type=float, metavar="SECONDS", help="under load before the timing (default 30)")
    add("--measure", dest="measure_s", type=float, metavar="SECONDS", help="for each shape and precision (default 2)")
    add("--repeats", type=int, help="fresh processes (default 1)")
    add("--list", action="store_true", help="measure nothing: show what was found, newest first")
    add("--json", action="store_true", help="print what was found as REST answers it")


def execute(options: argparse.Namespace) -> int:
    if options.list:
        found, code = look().pages("/calibrations"), DONE
    else:
        with some_server(lambda: _check_here(options)) as (client, is_embedded):
            experiment = client.post("/calibrations", _body(options), key=os.urandom(16).hex())
            ended = wait_for_its_end(client, experiment, is_embedded)
            found, code = client.pages("/calibrations", experiment=experiment["id"]), code_of(ended)
    if options.json:
        output.print_json(found)
    else:
        _print(found["items"])
    return code


def _check_here(options: argparse.Namespace) -> None:
    from orchestrator.cli.rest import offline

    offline.check_calibration(_body(options))


def _body(options: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name in _FIELDS if (value := getattr(options, name)) is not None}


def _print(items: list[dict[str, Any]]) -> None:
    from orchestrator.reports.drawing import table

    if not items:
        output.say("there is no calibration: tbd calibrate makes one")
        return
    headers = ["when", "node", "device", "arithmetic", "GFLOP/s", "spread", "best shape", "before", "valid"]
    print(table.text(headers, [_row(item) for item in items], output.width()))


def _row(item: dict[str, Any]) -> list[str]:
    change = "" if item["change_ratio"] is None else f"{100 * item['change_ratio']:+.1f} %"
    return [
        item["created_at"][:16].replace("T", " "),
        item["node"],
        f"{item['device_id'][:20]} {item['device_name'][:32]}",
        item["arithmetic"],
        f"{item['flops_per_s'] / 1e9:,.1f}",
        f"{100 * item['spread_ratio']:.1f} %",
        " x ".join(map(str, item["shape"])),
        change + (" changed" if item["changed"] else ""),
        "yes" if item["valid"] else "no",
    ]
