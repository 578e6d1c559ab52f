"""List the datasets and what each node has of them; check one on this machine; register files of your own here.

tbd datasets
tbd datasets check photographs
tbd datasets register imagenet /data/imagenet --layout image-folder
tbd datasets forget imagenet

Files are registered on each node that is to train on them, by whoever may write the node's settings.
"""

import argparse
import json
import subprocess
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.locate import look
from workers.trainer.protocol import OWN_DATA

ORDERS = ("check", "register", "forget")


def configure(parser: argparse.ArgumentParser) -> None:
    from workers.node.datasets import LAYOUTS

    parser.add_argument("order", nargs="?", choices=ORDERS)
    parser.add_argument("name", nargs="?", metavar="NAME", help="the dataset")
    parser.add_argument("path", nargs="?", metavar="PATH", help="register: the folder on this machine")
    parser.add_argument("--layout", choices=list(LAYOUTS), help="register: how the files are laid out")
    parser.add_argument("--licence", default="", help="register: the licence, for the list")
    parser.add_argument(
        "--replace", action="store_true", help="register: other files under a name that stands for some already"
    )
    parser.add_argument("--all", action="store_true", help="check, register: decode all images, not a sample")
    parser.add_argument("--json", action="store_true", help="print REST's answer, or what was found")


def execute(options: argparse.Namespace) -> int:
    if options.order is None:
        return _list(options.json)
    if options.name is None:
        raise CommandError(f"which dataset? tbd datasets {options.order} NAME")
    return {"check": _check, "register": _register, "forget": _forget}[options.order](options)


def _list(as_json: bool) -> int:
    page = look("these are the datasets of this installation, and what this machine has of them").get("/datasets")
    if as_json:
        output.print_json(page)
        return 0
    from orchestrator.reports.drawing import table
    from orchestrator.reports.numbers import memory

    rows = [
        [
            one["name"],
            one["domain"],
            one["layout"] or "",
            _splits(one["splits"] or {}),
            str(one["files"] or ""),
            memory(one["bytes"]),
            _on_nodes(one),
            one["licence"] or "",
        ]
        for one in page["items"]
    ]
    print(
        table.text(
            ["dataset", "domain", "layout", "samples", "files", "size", "nodes", "licence"], rows, output.width()
        )
    )
    for one in page["items"]:
        if one["problem"]:
            print(one["problem"])
    return 0


def _splits(splits: dict[str, dict[str, int]]) -> str:
    """The samples of each split: of images, what is counted first, and not their classes."""
    counted = {split: next(iter(counts.items())) for split, counts in splits.items()}
    told = ", ".join(f"{split} {count}" for split, (_, count) in counted.items())
    return " ".join([told, *sorted({what for what, _ in counted.values()})])


def _on_nodes(one: dict[str, Any]) -> str:
    return ", ".join(f"{place['node']}: {place['state']}" for place in one["nodes"])


def _check(options: argparse.Namespace) -> int:
    from orchestrator.cli.rest import offline
    from workers.node import datasets, prepare
    from workers.trainer.base import manifest

    name = options.name
    registered = datasets.registered().get(name)
    known = offline.catalog().datasets.get(name)
    if registered is None and known is None:
        raise CommandError(f"there is no dataset {name} here; tbd datasets lists them")
    problems: list[str] = []
    if known is not None:
        facts, path = known.facts, str(prepare.dataset_root(known.facts))
        try:
            made = manifest.read(path)
        except (OSError, ValueError) as error:
            raise CommandError(f"{name} is not prepared on this machine, the first run will do it: {error}") from None
        problems += manifest.problems(path, made)
        identity = manifest.identity(made)
    elif registered is None or "problem" in registered:
        raise CommandError(str((registered or {}).get("problem")))
    else:
        facts, path = registered, registered["path"]
        identity = _listing(path)
        if identity["sha256"] != registered["sha256"]:
            told = f"{registered['files']} files, {registered['bytes']} bytes"
            problems.append(f"{path}: these are not the files that were registered ({told}): register them anew")
    found = _read(facts["layout"], path, options.all)
    found["problems"] = [*problems, *found["problems"]]
    return _tell({"name": name, "layout": facts["layout"], "path": path, **identity, **found}, options.json)


def _listing(path: str) -> dict[str, Any]:
    from workers.trainer.base import manifest

    try:
        return manifest.listing(path)
    except OSError as error:
        raise CommandError(f"cannot read the dataset: {error}") from None


def _register(options: argparse.Namespace) -> int:
    from orchestrator.cli.rest import offline
    from workers.node import datasets

    if options.path is None or options.layout is None:
        raise CommandError("tbd datasets register NAME PATH --layout LAYOUT")
    if options.name in offline.catalog().datasets or options.name in ("synthetic", OWN_DATA):
        raise CommandError(f"{options.name} is a dataset that comes with tbd: give another name")
    found = _read(options.layout, options.path, options.all)
    if found["problems"]:
        return _tell({"name": options.name, "layout": options.layout, "path": options.path, **found}, options.json)
    try:
        facts = datasets.register(
            options.name, options.path, options.layout, options.licence, options.replace, found["splits"]
        )
    except datasets.DatasetError as error:
        raise CommandError(str(error)) from None
    output.say(f"registered on this machine, in {datasets.folder()}; do the same on every node that is to train on it")
    return _tell(
        {key: facts[key] for key in ("name", "layout", "path", "files", "bytes", "sha256")} | found, options.json
    )


def _forget(options: argparse.Namespace) -> int:
    from workers.node import datasets

    try:
        datasets.forget(options.name)
    except datasets.DatasetError as error:
        raise CommandError(str(error)) from None
    output.say(f"{options.name} is not registered on this machine any more; its files are where they were")
    return 0


def _read(layout: str, path: str, whole: bool) -> dict[str, Any]:
    """What the interpreter ``datasets`` finds, which can decode images."""
    from workers.node import interpreters
    from workers.node.code_version import ROOT

    found = interpreters.resolve("datasets")
    if not found.ready or found.python is None:
        raise CommandError(str(found.reason))
    command = [found.python, "-m", "suites.datasets.checking", layout, path, *(["--sample", "0"] if whole else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise CommandError(f"the check ended with status {done.returncode}: {' '.join(last)}") from None


def _tell(found: dict[str, Any], as_json: bool) -> int:
    """Print what was found; the exit status: 1 if something is wrong."""
    if as_json:
        output.print_json(found)
    else:
        print(f"{found['name']}: {found['layout']} in {found['path']}")
        if "sha256" in found:
            print(f"{found['files']} files, {found['bytes']} bytes, sha256 {found['sha256']}")
        for split, counts in found["splits"].items():
            print(f"{split}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))
        print(f"read: {found['read']}")
    for problem in found["problems"]:
        output.say(problem)
    return 1 if found["problems"] else 0
