"""List, add, remove or test webhooks: addresses that are told when an alert of the regression gate opens or closes.

  add URL   print the secret by which its messages are signed: on stdout, this once.
            mailto://…, slack://… and the like are told in words, by apprise
  ls        list them: what the last try came to, since when they fail, how many messages wait
  rm ID     remove one with what waits for it
  test ID   send it a message that tells of nothing; exit code 1 where it does not take it

Messages are signed by the Standard Webhooks specification: docs/read_results/gate.md. It takes a token of scope admin.
"""

import argparse
import time
from typing import Any

from orchestrator.cli.exits import DONE, FAILED, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import connect, look

Json = dict[str, Any]
TRIED_S, LOOK_S = 60.0, 0.3  # that a test may take: others may be due before it; between looks at what became of it


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("order", choices=["add", "ls", "rm", "test"])
    parser.add_argument("webhook", nargs="?", metavar="URL|ID")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    if options.order == "ls":
        return _listed(options.json)
    if options.webhook is None:
        raise CommandError(f"which? tbd webhooks {options.order} {'URL' if options.order == 'add' else 'ID'}")
    client = connect()
    if options.order == "add":
        return _added(client.post("/webhooks", {"url": options.webhook}), options.json)
    if options.order == "rm":
        client.delete(path_of("webhooks", options.webhook))
        output.say(f"{options.webhook} was removed")
        return DONE
    return _tested(client, options.webhook, options.json)


def _added(made: Json, as_json: bool) -> int:
    if as_json:
        output.print_json(made)
    elif made["secret"]:
        print(made["secret"])
    if not made["secret"]:
        output.say(f"{made['id']} is told in words from now on; tbd webhooks test {made['id']} shows how")
        return DONE
    output.say(f"{made['id']} is told from now on. Its secret is told this once: the receiver checks signatures by it")
    return DONE


def _tested(client: Client, webhook: str, as_json: bool) -> int:
    sent = client.post(path_of("webhooks", webhook, "test"))["message_id"]
    end = time.monotonic() + TRIED_S
    while time.monotonic() < end:
        found: Json | None = next((one for one in client.pages("/webhooks")["items"] if one["id"] == webhook), None)
        if found is None:
            raise CommandError(f"{webhook} was removed meanwhile")
        if found["last_message_id"] == sent:
            if as_json:
                output.print_json(found)
            output.say(f"{webhook}: {found['last_answer']}")
            return DONE if found["failing_since"] is None else FAILED
        time.sleep(LOOK_S)
    raise CommandError(f"{sent} was not sent within {TRIED_S:.0f} s: does a server with schedules run?", FAILED)


def _listed(as_json: bool) -> int:
    page = look().pages("/webhooks")
    if as_json:
        output.print_json(page)
        return DONE
    from orchestrator.cli.printing.tables import print_table
    from orchestrator.reports.tables.lists import webhooks_table

    print_table(webhooks_table(page["items"]))
    return DONE
