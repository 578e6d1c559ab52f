"""Make, list and revoke the tokens by which a server tells people apart.

  add NAME      print a new token: on stdout, this once
  ls            list all there ever were
  revoke TOKEN  refuse one from the next second on, by its id or its name

Without TBD_SERVER this works on the database of TBD_DATABASE_URL (or of the data directory), also while a server runs
on it: so the first token is made. With TBD_SERVER it asks that server, by a token of scope admin. From the first token
on every request needs one.
"""

import argparse
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from orchestrator.cli.exits import UNREACHABLE, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import client_of

if TYPE_CHECKING:  # SQLAlchemy takes half a second to import
    from orchestrator.db.store import SqlStore
    from orchestrator.domain.around.access import Actor

Answer = dict[str, Any]
_DAYS = re.compile(r"(\d{1,5})d?")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("order", choices=["add", "ls", "revoke"])
    parser.add_argument("token", nargs="?", metavar="NAME|ID")
    parser.add_argument("--scope", choices=["read", "submit", "admin"], default="submit", help="(default submit)")
    parser.add_argument("--owner", help="whose its experiments are (default NAME): another token of the same owner")
    parser.add_argument("--expires", default="90d", metavar="DAYS", help="such as 90d, or never (default 90d)")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    if options.order != "ls" and options.token is None:
        raise CommandError(f"which? tbd token {options.order} {'NAME' if options.order == 'add' else 'NAME|ID'}")
    if options.order == "ls":
        _list(_all(), options.json)
        return 0
    with _tokens() as tokens:
        if options.order == "revoke":
            _told(tokens.revoke(options.token), options.json)
        else:
            asked = {"name": options.token, "scope": options.scope, "expires_days": _days(options.expires)}
            _made(tokens.add(asked | ({"owner": options.owner} if options.owner else {})), options.json)
    return 0


def _days(text: str) -> int | None:
    if text == "never":
        return None
    found = _DAYS.fullmatch(text)
    if not found or not int(found[1]):
        raise CommandError(f"--expires {text}: write days, such as 90d, or never")
    return int(found[1])


def _made(token: Answer, as_json: bool) -> None:
    until = f"until {token['expires_at'][:10]}" if token["expires_at"] else "for good"
    if as_json:
        output.print_json(token)
    else:
        print(token["token"])
    output.say(
        f"{token['id']}: {token['name']} may {token['scope']} as {token['owner']}, {until}. This is told once: keep it "
        "in ~/.config/tbd/token (chmod 600) or in TBD_TOKEN"
    )


def _told(token: Answer, as_json: bool) -> None:
    if as_json:
        output.print_json(token)
    output.say(f"{token['id']} ({token['name']}) is revoked since {token['revoked_at'][:19]}")


def _list(page: Answer, as_json: bool) -> None:
    if as_json:
        output.print_json(page)
        return
    from orchestrator.reports.drawing import table
    from orchestrator.reports.numbers import short_time

    def row(one: Answer) -> list[str]:
        until = short_time(one["expires_at"]) if one["expires_at"] else "never"
        words = [str(one[name]) for name in ("id", "name", "owner", "scope", "state")]
        return [*words, short_time(one["created_at"]), until, short_time(one["last_used_at"])]

    rows = [row(one) for one in page["items"]]
    if not rows:
        output.say("there are no tokens: whoever reaches the server on this machine may do everything")
        return
    heads = ["token", "name", "owner", "scope", "state", "made (UTC)", "expires", "last used"]
    print(table.text(heads, rows, output.width()))


class _Tokens(Protocol):
    """Where tokens are kept; answers are REST's."""

    def add(self, asked: Answer) -> Answer: ...
    def revoke(self, wanted: str) -> Answer: ...


def _all() -> Answer:
    url = os.environ.get("TBD_SERVER")
    if url:
        return dict(client_of(url).pages("/tokens"))
    from orchestrator.cli.rest.looking import LookingClient

    return dict(LookingClient().pages("/tokens"))


@contextmanager
def _tokens() -> Iterator[_Tokens]:
    url = os.environ.get("TBD_SERVER")
    if url:
        yield _OfServer(client_of(url))
        return
    from orchestrator.db.store import SqlStore
    from orchestrator.domain.words.errors import InvalidRequest, NotFound, SettingsError, TbdError
    from orchestrator.serve.settings import read_settings

    try:
        store = SqlStore(read_settings().database_url)
        try:
            yield _OfDatabase(store)
        finally:
            store.close()
    except (InvalidRequest, NotFound, SettingsError) as error:
        raise CommandError(str(error).removeprefix("/: ")) from None
    except TbdError as error:
        raise CommandError(str(error), UNREACHABLE) from None


class _OfServer:
    def __init__(self, client: Client) -> None:
        self._client = client

    def add(self, asked: Answer) -> Answer:
        return dict(self._client.post("/tokens", asked))

    def revoke(self, wanted: str) -> Answer:
        return dict(self._client.post(path_of("tokens", wanted, "revoke")))


class _OfDatabase:
    """Who may write to the database is its owner: no token is asked for."""

    def __init__(self, store: "SqlStore") -> None:
        from orchestrator.services.clock import SystemClock

        self._store = store
        self._clock = SystemClock()

    def add(self, asked: Answer) -> Answer:
        from orchestrator.api.views.access import NewTokenView
        from orchestrator.services import tokens

        token, text = tokens.add(self._store, self._clock, asked, _user())
        return NewTokenView.at(token.created_at, token, token=text).model_dump(mode="json")

    def revoke(self, wanted: str) -> Answer:
        from orchestrator.api.views.access import TokenView
        from orchestrator.services import tokens

        found = tokens.revoke(self._store, self._clock, wanted, _user())
        return TokenView.at(self._clock.now(), found).model_dump(mode="json")


def _user() -> "Actor":
    """Who does it, for the audit trail: the user of this machine."""
    import getpass

    from orchestrator.domain.around.access import Actor, Scope

    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container may run a user that nobody has named
        name = f"uid {os.getuid()}"
    return Actor(name, Scope.ADMIN, None, "(database)")
