"""The site: REST with pages beside it. ``orchestrator.app`` serves it."""

import hashlib
import secrets
from collections.abc import Callable
from functools import cache
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from orchestrator.api.door.access import PAGES, check_lines
from orchestrator.api.server import create_app
from orchestrator.serve.settings import Settings
from orchestrator.services.context import Context
from orchestrator.web import experiment, home, lists, new, operate, past, run, sessions
from orchestrator.web.browser import ErrorPages
from orchestrator.web.page import Handler, route

_STATIC = Path(__file__).parent / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}

_HANDLERS: dict[tuple[str, str], Handler] = {
    ("GET", "/"): home.home,
    ("GET", "/experiments"): lists.experiments,
    ("GET", "/runs"): lists.runs,
    ("GET", "/results"): lists.results,
    ("GET", "/experiments/{experiment_id}"): experiment.experiment,
    ("POST", "/experiments/{experiment_id}"): experiment.order_experiment,
    ("GET", "/runs/{run_id}"): run.run,
    ("POST", "/runs/{run_id}"): run.order_run,
    ("GET", "/history"): past.history,
    ("GET", "/history/{series}"): past.series,
    ("GET", "/compare"): past.compare,
    ("GET", "/observations"): past.observations,
    ("GET", "/nodes"): operate.nodes,
    ("POST", "/nodes"): operate.order_node,
    ("GET", "/schedules"): operate.schedules,
    ("GET", "/schedules/{schedule_id}"): operate.schedule,
    ("POST", "/schedules/{schedule_id}"): operate.order_schedule,
    ("GET", "/new"): new.show_new,
    ("POST", "/new"): new.new,
    ("POST", "/logout"): sessions.logout,
}


def create_site(context: Context, settings: Settings, *, stopping: Callable[[], bool] = lambda: False) -> FastAPI:
    """Make the application with all its pages; arguments as of ``orchestrator.api.server.create_app``."""
    app = create_app(context, settings, stopping=stopping)
    app.state.form_secret = secrets.token_hex(32)
    app.router.routes.extend(paths())
    app.add_middleware(ErrorPages)
    return app


@cache
def paths() -> list[BaseRoute]:
    """All pages, and the two files that they load. Signing in is the one page that needs no token."""
    check_lines(set(_HANDLERS), PAGES, "PAGES")
    pages = [route(method, path, handler) for (method, path), handler in _HANDLERS.items()]
    entrance = [
        Route("/login", sessions.show_login, include_in_schema=False),
        Route("/login", sessions.login, methods=["POST"], include_in_schema=False),
    ]
    return [*pages, *entrance, *(_file(name) for name in ("style.css", "live.js"))]


def _file(name: str) -> Route:
    """Asked again with each page, and seldom sent: to who has it as it is the answer has no body."""
    content = (_STATIC / name).read_bytes()
    headers = {"Cache-Control": "no-cache", "ETag": f'"{hashlib.sha256(content).hexdigest()[:16]}"'}

    async def endpoint(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=_TYPES[Path(name).suffix])

    return Route(f"/static/{name}", endpoint, include_in_schema=False)
