"""What a person calls an experiment or a run: its id, how that begins, an experiment's name, or ``latest``."""

import re
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client, path_of

LATEST = "latest"
_WHOLE = re.compile(r"(exp|run)_[0-9a-z]{20}")
_SHORT = re.compile(r"[A-Za-z0-9_-]{1,100}")
MOST_TOLD = 5  # candidates, where a text stands for several: a judgement
_LOOKED_AT = 100  # runs of an experiment among which the one that started last is looked for: a judgement


def thing(client: Client, text: str) -> str:
    """The id of the experiment or the run that ``text`` stands for. A whole id costs no request.

    Raises:
        CommandError: it stands for none, or for several; the text lists them.
    """
    if _WHOLE.fullmatch(text):
        return text
    return _told(text, _latest(client) if text == LATEST else _chosen(text, _candidates(client, text), ""))


def experiment(client: Client, text: str) -> str:
    """The id of the experiment that ``text`` stands for; raises as ``thing``."""
    if _WHOLE.fullmatch(text):
        if text.startswith("run_"):
            raise CommandError(f"{text} is a run: this takes an experiment")
        return text
    if text == LATEST:
        return _told(text, _latest(client))
    found = [one for one in _candidates(client, text) if one["kind"] == "experiment"]
    return _told(text, _chosen(text, found, "experiment "))


def run(client: Client, text: str) -> str:
    """The id of the run that ``text`` stands for: also the only run of an experiment; of the latest experiment the run
    that started last. Raises as ``thing``."""
    if text.startswith("run_") and _WHOLE.fullmatch(text):
        return text
    found = thing(client, text)
    if found.startswith("run_"):
        return found
    runs = client.get(path_of("experiments", found, "runs"), limit=_LOOKED_AT)["items"]
    if text == LATEST and runs:
        return _told(text, max(runs, key=lambda one: one["started_at"] or ""))
    if len(runs) == 1:
        return _told(text, runs[0])
    some = ", ".join(one["id"] for one in runs[:MOST_TOLD])
    raise CommandError(f"{text} has {len(runs) or 'no'} runs" + (f": which? {some}" if runs else "") + " (tbd show)")


def _latest(client: Client) -> Any:
    found = client.get("/experiments", limit=1)["items"]
    if not found:
        raise CommandError("there is no latest experiment: nothing was submitted yet. Begin with: tbd run resnet-50")
    return found[0]


def _candidates(client: Client, text: str) -> list[Any]:
    """Those of the very name alone, where there are any: a name that is also how an id begins is a name."""
    found = client.get("/lookup", text=text, limit=MOST_TOLD + 1)["items"] if _SHORT.fullmatch(text) else []
    named = [one for one in found if one["kind"] == "experiment" and one["name"] == text]
    return named[:1] or found


def _chosen(text: str, found: list[Any], kind: str) -> Any:
    if not found:
        raise CommandError(f"there is no {kind or 'experiment or run '}{text!r}: tbd ls lists what there is")
    if len(found) > 1:
        lines = [f"  {one['id']}  {one['name']}, {one['created_at'][:19]}" for one in found[:MOST_TOLD]]
        more = ["  …"] if len(found) > MOST_TOLD else []
        raise CommandError("\n".join([f"{text!r} is how several ids begin:", *lines, *more]))
    return found[0]


def _told(text: str, found: Any) -> str:
    """Its id; a person reads which one it is."""
    name = f" ({found['name']})" if found.get("name") not in (None, text) else ""
    output.say(f"{text}: {found['id']}{name}")
    return str(found["id"])
