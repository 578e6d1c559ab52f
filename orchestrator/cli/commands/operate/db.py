"""Look at the schema of the database, bring it to this version, or copy it.

  current   print the revision that it has
  check     say how it stands to this version of tbd, and find the rows that cannot be read: 1 if there are any
  upgrade   bring it up to date (tbd serve does that by itself)
  backup    copy it into FILE, as it is at one moment, also while a server writes

This talks to the database of TBD_DATABASE_URL (or of the data directory), not to a server, which may be down.
"""

import argparse
from pathlib import Path
from typing import Any

from orchestrator.cli.exits import FAILED, UNREACHABLE, USAGE, CommandError
from orchestrator.cli.printing import output
from orchestrator.domain.words.errors import SettingsError, StoreUnavailable


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("order", choices=["current", "check", "upgrade", "backup"])
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="of backup: a new file")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def execute(options: argparse.Namespace) -> int:
    from orchestrator.db.upgrade import admin
    from orchestrator.db.upgrade.backup import backup
    from orchestrator.serve.settings import read_settings

    if (options.order == "backup") != (options.file is not None):
        raise CommandError("backup takes a FILE, and no other order does: tbd db backup FILE", USAGE)
    orders: dict[str, Any] = {"current": admin.current, "check": admin.check, "upgrade": admin.upgrade}
    orders["backup"] = lambda url: backup(url, options.file)
    try:
        answer = orders[options.order](read_settings().database_url)
    except StoreUnavailable as error:
        raise CommandError(str(error), UNREACHABLE) from None
    except SettingsError as error:
        raise CommandError(str(error), USAGE) from None
    damaged = _damaged(options.order)
    if options.json:
        output.print_json(_as_json(options.order, answer, damaged))
        return FAILED if damaged else 0
    print(_in_words(options.order, answer))
    for one in damaged:
        print(f"{one['table']} {one['id']}: {one['reason']}. Way out: {one['way_out']}")
    return FAILED if damaged else 0


def _damaged(order: str) -> list[dict[str, Any]]:
    """The rows that cannot be read; none are looked for in a database of another schema."""
    from orchestrator.db.upgrade import admin
    from orchestrator.serve.settings import read_settings

    if order != "check":
        return []
    found = admin.damaged(read_settings().database_url)
    return [{**vars(one), "way_out": one.way_out} for one in found]


def _as_json(order: str, answer: Any, damaged: list[dict[str, Any]]) -> dict[str, Any]:
    if order == "upgrade":
        return {"revision_before": answer[0], "revision": answer[1]}
    if order == "backup":
        return {"bytes": answer}
    return {"revision": answer} if order == "current" else {"finding": answer, "damaged": damaged}


def _in_words(order: str, answer: Any) -> str:
    if order == "upgrade":
        before, after = answer
        return f"the database has schema {after} already" if before == after else f"schema {before or 'none'} → {after}"
    if order == "backup":
        return (
            f"copied, {answer} bytes. To bring it back: stop the server, put the file where its database was, start it"
        )
    return str(answer or "the database has no schema yet")
