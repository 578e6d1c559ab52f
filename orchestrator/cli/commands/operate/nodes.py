"""List the nodes, or tell of a device; drain, quarantine, resume; clear a device."""

import argparse
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import connect
from orchestrator.domain.words.spelling import did_you_mean

ORDERS = ("drain", "resume", "quarantine")
CLEAR = "clear"
_DEVICE = ("/", "GPU-", "MIG-", "cpu:")


def configure(parser: argparse.ArgumentParser) -> None:
    about = "drain NODE (no new runs), quarantine NODE (results not believed), resume NODE, clear DEVICE; or DEVICE"
    parser.add_argument("order", nargs="?", metavar="ORDER", type=_order, help=about)
    parser.add_argument("name", nargs="?", metavar="NAME", help="NODE; or DEVICE: its UUID, or NODE/NUMBER")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    client, order, name = connect(), options.order, options.name
    if order in (*ORDERS, CLEAR) and name is None:
        what = "device" if order == CLEAR else "node"
        raise CommandError(f"which {what}? tbd nodes {order} {what.upper()}")
    if order is None:
        answer = client.get("/nodes")
    elif order in ORDERS:
        answer = client.post(path_of("nodes", name, order))
    elif order == CLEAR:
        answer = client.post(path_of(*_place_of(client, name), CLEAR))
    else:
        answer = client.get(path_of(*_place_of(client, order)))
    if options.json:
        output.print_json(answer)
    else:
        _print(answer)
    return 0


def _order(text: str) -> str:
    """An order, or a device."""
    words = (*ORDERS, CLEAR)
    if text not in words and not any(one in text for one in _DEVICE):
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(words)}{did_you_mean(text, words)}")
    return text


def _place_of(client: Client, device: str) -> tuple[str, str, str, str]:
    """Where REST has the device: NODE/NUMBER as it stands, a UUID on the node that has it."""
    node, slash, number = device.rpartition("/")
    if slash:
        return "nodes", node, "devices", number
    found = {
        one["name"]
        for one in client.get("/nodes")["items"]
        for known in [*one["devices"], *(one["inventory"].get("gpus") or ())]
        if known["id"].startswith(device)
    }
    if len(found) != 1:
        told = f"are {len(found)} devices" if found else "is no device"
        raise CommandError(f"there {told} {device}: give NODE/DEVICE, or a UUID (tbd nodes)")
    return "nodes", found.pop(), "devices", device


def _print(answer: dict[str, Any]) -> None:
    from orchestrator.reports.drawing import table
    from orchestrator.reports.tables.devices import device_table
    from orchestrator.reports.tables.lists import nodes_table

    found = device_table(answer) if "events" in answer else nodes_table(answer.get("items", [answer]))
    if found.common:
        print(found.common)
    if found.rows:
        print(table.text(found.headers, found.rows, output.width()))
    for note in found.notes:
        print(note)
