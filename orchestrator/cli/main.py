"""``tbd``: finds the command, imports only that one, runs it, and turns what went wrong into an exit code.

Commands that only talk REST use the standard library alone: ``tbd ls`` must not wait for numpy.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from orchestrator.cli.exits import DONE, INTERRUPTED, CommandError

# command -> what it does. The module of that name in ``commands`` has ``configure(parser)`` and ``execute(options)``.
COMMANDS: dict[str, str] = {
    "run": "run an experiment here and now, without a server, and print its table",
    "serve": "run the service",
    "submit": "submit an experiment to a server",
    "plan": "show what an experiment would run, without running it",
    "ls": "list experiments",
    "show": "show an experiment or a run",
    "watch": "follow an experiment or a run until it ends",
    "cancel": "cancel an experiment or a run",
    "rerun": "run a run's plan again",
    "logs": "print what a run's framework printed",
    "results": "print the table of results",
    "compare": "compare two experiments or runs",
    "report": "write a report of an experiment (Markdown)",
    "models": "list the models",
    "frameworks": "list the frameworks' interpreters, or install some",
    "datasets": "list the datasets",
    "nodes": "list the nodes, or drain, quarantine, resume one",
    "netbench": "measure latency, rate and all-reduce time between ranks",
    "calibrate": "find what devices can do at best, or show how that changed",
    "observations": "check the TBD paper's observations on the results there are",
    "doctor": "check this machine and say what to do about each finding",
    "ingest": "import the log of a job that ran without the service",
    "analyse": "analyse stored logs anew and show what that would change",
    "db": "look at or migrate the database",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] not in COMMANDS:
        return _without_command(words)
    try:
        return _run(words[0], words[1:])
    except CommandError as error:
        print(f"tbd {words[0]}: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print(f"\ntbd {words[0]}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def _run(name: str, words: list[str]) -> int:
    command: Any = importlib.import_module(f"orchestrator.cli.commands.{name}")
    if hasattr(command, "hand_over"):  # serve: its own parser knows its options
        return int(command.hand_over(words))
    parser = argparse.ArgumentParser(
        prog=f"tbd {name}",
        description=command.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.configure(parser)
    code = int(command.execute(parser.parse_args(words)))
    sys.stdout.flush()
    return code


def _without_command(words: list[str]) -> int:
    """Help, the version, or what is wrong. argparse makes the text, so that it looks like the commands' own."""
    lines = "\n".join(f"  {name:<12}{text}" for name, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="tbd",
        description="Measures how fast deep neural networks train, and says why a figure can be trusted.",
        usage="tbd COMMAND [options]",
        epilog=f"commands:\n{lines}\n\nThe server is TBD_SERVER, else the one that owns TBD_DATA_DIR.\n"
        "exit codes: 0 done, 1 a run failed, 2 usage or an invalid spec, 3 a regression was found, "
        "4 unreachable or timed out, 5 not allowed, 130 interrupted",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print version and commit")
    known, rest = parser.parse_known_args(words)
    if known.version:
        from workers.node.code_version import code_version, described

        print(f"tbd {described(code_version())}")
        return DONE
    if rest:
        parser.error(f"there is no command {rest[0]!r}")
    parser.print_help()
    return DONE


if __name__ == "__main__":
    sys.exit(main())
