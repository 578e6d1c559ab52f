"""Looking without a server: the client of the REST application in this very process, for the time of the command.

Imported only where there is no server: the application takes half a second to import.
"""

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping, MutableMapping
from typing import Any, cast
from urllib.parse import unquote

from orchestrator.api.looking import Looking
from orchestrator.cli.exits import FAILED, UNREACHABLE, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import API, Client, Event
from orchestrator.cli.rest.locate import no_server
from orchestrator.db.opening import LookingStore
from orchestrator.domain.asked.placement import Node
from orchestrator.domain.ports import Cluster, Store
from orchestrator.domain.words.errors import SettingsError, TbdError
from orchestrator.serve.data_directory import server_elsewhere
from orchestrator.serve.settings import Settings, read_settings
from orchestrator.services.clock import SystemClock
from orchestrator.services.context import Context
from orchestrator.services.facts.catalog import load_catalog


class LookingClient(Client):
    """Answers what is asked by GET from the database that the settings name. All else needs a server, and says so.

    Args:
        about: is said with the first answer, so that nobody takes it for a server's.
        store: another one than that of the settings.

    Raises:
        CommandError: the settings cannot be used, or the database is that of a server on another machine.
    """

    def __init__(self, about: str = "", store: Store | None = None) -> None:
        super().__init__("http://localhost")  # which nobody connects to
        try:
            settings = read_settings()
            catalog = load_catalog(settings.suite_path)
            if store is None:
                _check_that_it_is_ours(settings)
                store = LookingStore(settings.database_url)
        except SettingsError as error:
            raise CommandError(str(error)) from None
        self._about = about
        cluster = cast(Cluster, _ThisMachine())  # who only looks calls none of the methods that it lacks
        self._app = Looking(Context(store, cluster, catalog, SystemClock(), wake=lambda: None))

    def events(self, path: str) -> Iterator[Event]:
        """The events that there are.

        Raises:
            CommandError: also after them, where more were to come if there were a server.
        """
        kind = ""
        for event in self._stream(API + path, None):
            kind = event.kind
            yield event
        if kind != "end":
            raise CommandError("it has not ended, and goes on when there is a server: tbd serve", UNREACHABLE)

    def _connection(self, timeout_s: float) -> Any:
        return _Exchange(self._app, self._answers)

    def _answers(self) -> None:
        if self._about:
            output.say(self._about)
            self._about = ""


def _check_that_it_is_ours(settings: Settings) -> None:
    """A SQLite file of a server elsewhere, on a shared file system, cannot be read safely beside it: the index of its
    log lies in that machine's memory."""
    host = server_elsewhere(settings.data_dir)
    if host is not None and settings.database_url.startswith("sqlite"):
        raise CommandError(
            f"{settings.data_dir} is served on another machine, {host}: look there, or set TBD_SERVER to its address. "
            f"If that server is gone for good, remove {settings.data_dir / 'server.json'}",
            UNREACHABLE,
        )


class _ThisMachine:
    """The cluster of who only looks: this machine as the only node, as far as interpreters and datasets go."""

    def nodes(self) -> list[Node]:
        from orchestrator.cli.rest.offline import this_node

        return [this_node()]

    def interpreters(self, _node: str) -> list[dict[str, Any]]:
        from workers.node import interpreters

        return interpreters.describe()


class _Exchange:
    """One request and its answer, with what ``client.Client`` uses of ``http.client``'s connections and answers."""

    def __init__(self, app: Looking, answers: Callable[[], None]) -> None:
        self._app = app
        self._answers = answers  # is called before an answer that is no problem
        self._messages: Generator[Mapping[str, Any], None, None] | None = None
        self.status = 0

    def request(self, method: str, target: str, _content: Any = None, headers: Mapping[str, str] | None = None) -> None:
        """Raises CommandError unless it only looks."""
        if method != "GET":
            raise no_server()
        path, _, query = target.partition("?")
        told = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "root_path": "",
        }
        scope |= {"path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(), "headers": told}
        self._messages = _messages_of(self._app, scope)

    def getresponse(self) -> "_Exchange":
        assert self._messages is not None, "request() comes before"
        self.status = next(self._messages)["status"]
        if self.status < 400:
            self._answers()
        self._parts = self._bodies(self._messages)
        return self

    @staticmethod
    def _bodies(messages: Iterator[Mapping[str, Any]]) -> Iterator[bytes]:
        for message in messages:
            if body := message.get("body"):
                yield body
            if not message.get("more_body"):
                return

    def read(self, size: int | None = None) -> bytes:
        """All that is left; with any ``size`` the next part, and b"" after the last."""
        return b"".join(self._parts) if size is None else next(self._parts, b"")

    def __iter__(self) -> Iterator[bytes]:
        """The lines, without their ends."""
        rest = b""
        for part in self._parts:
            *lines, rest = (rest + part).split(b"\n")
            yield from lines

    def close(self) -> None:
        if self._messages is not None:
            self._messages.close()


def _messages_of(app: Looking, scope: dict[str, Any]) -> Generator[Mapping[str, Any], None, None]:
    """What the application sends, as it sends it: it goes on only while somebody waits for the next message.

    Raises:
        CommandError: it broke off in the middle.
    """
    loop = asyncio.new_event_loop()
    sent: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
    received: Iterator[dict[str, Any]] = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> MutableMapping[str, Any]:
        """The end of a body that is empty; then nothing, for the client does not go away before the end."""
        return next(received, None) or await loop.create_future()

    async def carry_out() -> None:
        await app(scope, receive, sent.put)

    task = loop.create_task(carry_out())
    task.add_done_callback(lambda _: sent.put_nowait(None))
    try:
        while (message := loop.run_until_complete(sent.get())) is not None:
            yield message
        loop.run_until_complete(task)
    except TbdError as error:
        raise CommandError(f"this broke off in the middle: {error}", FAILED) from None
    finally:
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
