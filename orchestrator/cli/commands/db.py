"""Look at the schema of the database, or bring it to this version.

  current   print the revision that it has
  check     say how it stands to this version of tbd
  upgrade   bring it up to date (tbd serve does that by itself)

This talks to the database of TBD_DATABASE_URL (or of the data directory), not to a server, which may be down.
"""

import argparse
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.exits import UNREACHABLE, USAGE, CommandError
from orchestrator.domain.errors import SettingsError, StoreUnavailable


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("order", choices=["current", "check", "upgrade"])
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def execute(options: argparse.Namespace) -> int:
    from orchestrator.db import admin
    from orchestrator.settings import read_settings

    orders: dict[str, Any] = {"current": admin.current, "check": admin.check, "upgrade": admin.upgrade}
    try:
        answer = orders[options.order](read_settings().database_url)
    except StoreUnavailable as error:
        raise CommandError(str(error), UNREACHABLE) from None
    except SettingsError as error:
        raise CommandError(str(error), USAGE) from None
    if options.json:
        output.print_json(_as_json(options.order, answer))
    else:
        print(_in_words(options.order, answer))
    return 0


def _as_json(order: str, answer: Any) -> dict[str, Any]:
    if order == "upgrade":
        return {"revision_before": answer[0], "revision": answer[1]}
    return {"revision": answer} if order == "current" else {"finding": answer}


def _in_words(order: str, answer: Any) -> str:
    if order == "upgrade":
        before, after = answer
        return f"the database has schema {after} already" if before == after else f"schema {before or 'none'} → {after}"
    return str(answer or "the database has no schema yet")
