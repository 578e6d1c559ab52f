"""Submit an experiment again and again, at the times of a cron expression; each time is on record.

tbd schedule add nightly "0 2 * * *" suites/quick.yaml --timezone Europe/Berlin

SCHEDULE: its name, or its id.
"""

import argparse
import os
import re
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client, ServerProblem, path_of
from orchestrator.cli.rest.locate import connect, look
from orchestrator.cli.spec import spec_options
from orchestrator.serve.parser import Parser

Json = dict[str, Any]
_ID = re.compile(r"sch_[0-9a-z]{20}")
_FIRES = 10  # that show prints
_CRON = 'five fields, such as "0 2 * * MON-FRI" (minute, hour, day, month, weekday); or @daily'
_RULES = ("timezone", "misfire", "max_age_s", "overlap", "jitter_s")


def configure(parser: argparse.ArgumentParser) -> None:
    orders = parser.add_subparsers(dest="order", required=True, metavar="ORDER", parser_class=Parser)
    _configure_add(orders.add_parser("add", help="make a schedule"))
    _configure_edit(orders.add_parser("edit", help="change its times, its rules or its spec"))
    listing = orders.add_parser("ls", help="list schedules, newest first")
    listing.add_argument("--owner", help="only schedules of this owner")
    listing.add_argument("--json", action="store_true", help="print REST's answer")
    words = {
        "show": "show its rules, its next times and what became of the last ones",
        "pause": "record its times as skipped",
        "resume": "end a pause",
        "run": "submit its spec now",
    }
    for order, text in (words | {"rm": "remove it with the record of its times; its experiments stay"}).items():
        one = orders.add_parser(order, help=text)
        one.add_argument("schedule", metavar="SCHEDULE", help="its name, or its id")
        if order == "show":
            one.add_argument("--fires", type=int, default=_FIRES, metavar="N", help="times to print (default 10)")
        one.add_argument("--json", action="store_true", help="print REST's answer")


def _configure_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("schedule", metavar="NAME", help="a-z, 0-9 and -; its own")
    parser.add_argument("cron", metavar="CRON", help=_CRON)
    rules = parser.add_argument_group("rules of the schedule")
    rules.add_argument("--timezone", default="UTC", metavar="ZONE", help="such as Europe/Berlin (default UTC)")
    _configure_rules(rules, " (default {})")
    rules.add_argument("--paused", action="store_true", default=None, help="begin with a pause")
    spec_options.configure(parser)
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def _configure_edit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("schedule", metavar="SCHEDULE", help="its name, or its id")
    rules = parser.add_argument_group("rules of the schedule; what is not given stays")
    rules.add_argument("--rename", metavar="NAME", help="another name of the schedule")
    rules.add_argument("--cron", metavar="CRON", help=f"{_CRON}; holds from now on")
    rules.add_argument("--timezone", "--zone", metavar="ZONE", help="such as Europe/Berlin; holds from now on")
    _configure_rules(rules, "")
    rules.add_argument(
        "--spec",
        metavar="SPEC.yaml|MODEL",
        help="another spec as a whole. Without it: the schedule's own, with the fields that are given below",
    )
    spec_options.configure_fields(parser)
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def _configure_rules(rules: Any, default: str) -> None:
    """The rules that a schedule is made with and that can be changed. ``default`` is a form for what each is else."""
    rules.add_argument(
        "--misfire",
        choices=["skip", "one", "all"],
        help=f"what is submitted of times that came late{default.format('one')}",
    )
    rules.add_argument(
        "--max-age",
        dest="max_age_s",
        type=float,
        metavar="SECONDS",
        help=f"later it is given up{default.format('a day')}",
    )
    rules.add_argument(
        "--overlap",
        choices=["skip", "queue", "allow"],
        help=f"while an experiment of it goes on{default.format('skip')}",
    )
    rules.add_argument(
        "--jitter",
        dest="jitter_s",
        type=float,
        metavar="SECONDS",
        help=f"put each time off by up to so long{default.format('0')}",
    )


def execute(options: argparse.Namespace) -> int:
    client = look() if options.order in _LOOKS else connect()
    return int(_ORDERS[options.order](client, options) or 0)


def _add(client: Client, options: argparse.Namespace) -> None:
    source = spec_options.Source(options)
    body = {name: value for name in (*_RULES, "paused") if (value := getattr(options, name)) is not None}
    body |= {"name": options.schedule, "cron": options.cron, "spec": source.spec(lambda: client.get("/models"))}
    try:
        made = client.post("/schedules", body, key=os.urandom(16).hex())
    except ServerProblem as problem:
        raise _explained(problem, source) from None
    if options.json:
        output.print_json(made)
        return
    print(made["id"], flush=True)
    first = made["upcoming"][0] if made["upcoming"] else None
    output.say(f"{made['name']}: its first time is {_time(first, made)}" if first else f"{made['name']} is paused")


def _explained(problem: ServerProblem, source: spec_options.Source | None) -> CommandError:
    """What is wrong with the spec is told as of the spec alone, with its lines; the rest as it is."""
    items = problem.document.get("errors") or []
    if not items or not all(item["pointer"].startswith("/spec") for item in items):
        return problem
    own = [{**item, "pointer": item["pointer"].removeprefix("/spec")} for item in items]
    told = ServerProblem(problem.status, {**problem.document, "errors": own})
    return source.explain(told) if source else told


def _edit(client: Client, options: argparse.Namespace) -> None:
    source = spec_options.Source(options) if options.spec is not None else None
    given = spec_options.given_fields(options)
    body = {name: value for name in ("cron", *_RULES) if (value := getattr(options, name)) is not None}
    body |= {} if options.rename is None else {"name": options.rename}
    if not body and not given and source is None:
        raise CommandError("say what is to change: --cron, --timezone, --spec and so on (tbd schedule edit --help)")
    found = _find(client, options.schedule)
    if source is not None:
        body["spec"] = source.spec(lambda: client.get("/models"))
    elif given:
        body["spec"] = _replaced(found["spec"], given)
    try:
        changed = client.patch(path_of("schedules", found["id"]), body)
    except ServerProblem as problem:
        raise _explained(problem, source) from None
    if options.json:
        output.print_json(changed)
        return
    names = [name for name in body if changed[name] != found[name]]
    what = f"changed ({', '.join(names)})" if names else "as it was"
    following = f"its next time is {_time(changed['upcoming'][0], changed)}" if changed["upcoming"] else "it is paused"
    output.say(f"{changed['name']} is {what}; {following}")


def _replaced(own: Json, given: Json) -> Json:
    """A stored spec with the fields that are given in place of its own; of the options those that are named."""
    batches = {"per_device_batch_size", "global_batch_size"}
    other = dict.fromkeys(batches - set(given)) if batches & set(given) else {}
    merged = {name: {**own[name], **given[name]} for name in ("options", "nodes") if name in given}
    return own | given | other | merged


def _list(client: Client, options: argparse.Namespace) -> None:
    page = client.pages("/schedules", owner=options.owner)
    if options.json:
        output.print_json(page)
        return
    from orchestrator.reports.drawing import table
    from orchestrator.reports.tables.lists import schedules_table

    found = schedules_table(page["items"], output.state)
    if found.rows:
        print(table.text(found.headers, found.rows, output.width()))
    else:
        output.say('no schedules yet. Make one: tbd schedule add nightly "0 2 * * *" SPEC.yaml')
    for one in page["damaged"]:
        output.say(f"{one['id']} is damaged: {one['reason']}. To remove it: {one['way_out']}")


def _show(client: Client, options: argparse.Namespace) -> None:
    found = _find(client, options.schedule)
    fires = client.pages(path_of("schedules", found["id"], "fires"), options.fires)["items"]
    if options.json:
        output.print_json(found | {"fires": fires})
        return
    spec = found["spec"]
    pairs = [
        ("schedule", f"{found['id']}  {found['name']}  of {found['owner']}"),
        ("times", f"{found['cron']}  {found['timezone']}" + (", paused" if found["paused"] else "")),
        ("submits", f"{spec['name']}: {_word(spec['model'])}, {_word(spec['framework'])} (--json has all of it)"),
        ("if late", f"misfire {found['misfire']}, given up after {found['max_age_s']:g} s"),
        ("if one goes on", f"overlap {found['overlap']}"),
        ("jitter", f"up to {found['jitter_s']:g} s" if found["jitter_s"] else ""),
        *(("next" if place == 0 else "", _time(time, found)) for place, time in enumerate(found["upcoming"])),
    ]
    for name, text in pairs:
        if text:
            print(f"{name:<14}  {text}")
    if fires:
        print()
        _print_fires(found, fires)


def _print_fires(schedule: Json, fires: list[Json]) -> None:
    from orchestrator.reports.drawing import table
    from orchestrator.reports.tables.lists import fires_table

    found = fires_table(schedule, fires, output.state)
    print(table.text(found.headers, found.rows, output.width()))


def _change(client: Client, options: argparse.Namespace) -> None:
    found = _find(client, options.schedule)
    paused = options.order == "pause"
    changed = client.patch(path_of("schedules", found["id"]), {"paused": paused})
    if options.json:
        output.print_json(changed)
    else:
        following = "" if paused else f"; its next time is {_time(changed['upcoming'][0], changed)}"
        output.say(f"{found['name']} is {'paused' if paused else 'resumed'}{following}")


def _run(client: Client, options: argparse.Namespace) -> None:
    found = _find(client, options.schedule)
    fire = client.post(path_of("schedules", found["id"], "run"), key=os.urandom(16).hex())
    if options.json:
        output.print_json(fire)
        return
    print(fire["experiment_id"], flush=True)
    output.say(f"{found['name']} was submitted. Follow it: tbd watch {fire['experiment_id']}")


def _remove(client: Client, options: argparse.Namespace) -> None:
    # One that is damaged is in no answer but can be removed, by its id.
    identifier = options.schedule if _ID.fullmatch(options.schedule) else _find(client, options.schedule)["id"]
    client.delete(path_of("schedules", identifier))
    output.say(f"{options.schedule} was removed; its experiments stay")
    if options.json:
        output.print_json({"removed": [identifier]})


def _find(client: Client, text: str) -> Json:
    """The schedule of that id or name. Raises CommandError: there is none."""
    if _ID.fullmatch(text):
        return dict(client.get(path_of("schedules", text)))
    found = client.get("/schedules", name=text, limit=1)["items"]
    if not found:
        raise CommandError(f"there is no schedule {text!r}: tbd schedule ls lists what there is")
    return dict(found[0])


def _word(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _time(text: str, schedule: Json) -> str:
    from orchestrator.reports.tables.lists import zoned_text

    return zoned_text(text, schedule)


_LOOKS = ("ls", "show")
_ORDERS = {
    "add": _add,
    "edit": _edit,
    "ls": _list,
    "show": _show,
    "pause": _change,
    "resume": _change,
    "run": _run,
    "rm": _remove,
}
