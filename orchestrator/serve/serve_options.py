"""The options of ``tbd serve``: known to the command line, which refuses a wrong one at once, and to the service."""

import argparse

from orchestrator.serve.parser import Parser


def parser() -> Parser:
    """Its result has ``host`` and ``port`` (None: that of the settings), ``owner_fd``, ``schedules``, ``end_runs``,
    ``json`` and ``verbose``."""
    made = Parser(prog="tbd serve", description="Run the service. All settings are TBD_* variables.")
    made.add_argument("command", nargs="?", choices=["serve"], default="serve", help=argparse.SUPPRESS)
    made.add_argument("--host", help="instead of TBD_HOST; beyond loopback only with tokens (tbd token)")
    made.add_argument("--port", type=int, help="instead of TBD_PORT; 0: a free one")
    made.add_argument("--owner-fd", type=int, help=argparse.SUPPRESS)
    made.add_argument(
        "--no-schedules",
        dest="schedules",
        action="store_false",
        help="submit nothing by schedules: their times are settled when a server without this option looks",
    )
    made.add_argument("--end-runs", action="store_true", help="at an orderly stop, end what trains; else it goes on")
    made.add_argument("--json", action="store_true", help="print {url} as the first line of stdout")
    made.add_argument("--verbose", action="store_true", help="log what the service does")
    return made
