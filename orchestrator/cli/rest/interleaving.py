"""Two subjects side by side on a server, from the request to what it told."""

from collections.abc import Mapping
from typing import Any

from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.waiting import wait_for_experiment


def tried(client: Client, baseline: str, candidate: str, **asked: Any) -> tuple[str, Mapping[str, Any]]:
    """Have the two alternate until they tell; (the experiment, ``GET /experiments/{id}/side-by-side``).

    Args:
        asked: further fields of the request; those that are None are left to the server.

    Raises:
        CommandError: it is refused, the server is gone, or (130) Ctrl-C.
    """
    body = {"baseline": baseline, "candidate": candidate, **asked}
    begun = client.post("/compare", {name: value for name, value in body.items() if value is not None})
    output.say(f"{begun['id']}: {baseline} and {candidate} alternate; follow it with tbd watch {begun['id']}")
    wait_for_experiment(client, begun["id"])
    found: Mapping[str, Any] = client.get(path_of("experiments", begun["id"], "side-by-side"))
    if found["lost_blocks"]:
        output.say(f"{found['lost_blocks']} blocks gave no number: {found['why_lost']}")
    return str(begun["id"]), found
