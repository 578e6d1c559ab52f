"""``tbd``: finds the command, imports only that one, runs it, and turns what went wrong into an exit code.

Commands that only talk REST use the standard library alone: ``tbd ls`` must not wait for numpy.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from orchestrator.cli.exits import DONE, FAILED, INTERRUPTED, CommandError
from orchestrator.cli.printing import streams
from orchestrator.serve.parser import Parser

# What a person wants to do -> command -> what it does. ``commands/GROUP/NAME.py`` has ``configure(parser)`` and
# ``execute(options)``.
GROUPS: dict[str, dict[str, str]] = {
    "measure": {
        "run": "run an experiment and print its table",
        "exec": "measure your own training script as it stands",
        "plan": "show what an experiment would run, without running it",
        "submit": "submit an experiment to a server",
        "watch": "follow an experiment or a run until it ends",
        "pause": "let no further run of an experiment begin",
        "resume": "let a paused experiment go on",
        "extend": "add values of axes or repeats to an experiment",
        "cancel": "cancel an experiment or a run",
        "rerun": "run a run's plan again",
        "calibrate": "find what devices can do at best, or show how that changed",
        "netbench": "measure latency, rate and all-reduce time between ranks",
        "noise": "measure how noisy this machine is, in two minutes",
        "parity": "check that a model is the same network in every framework here",
    },
    "look": {
        "ls": "list experiments",
        "show": "show an experiment or a run",
        "results": "print the table of results",
        "logs": "print what a run's framework printed",
        "models": "list the models",
        "datasets": "list the datasets, check one, register files of your own",
        "frameworks": "list the frameworks' interpreters, or install some",
    },
    "analyse": {
        "compare": "compare two experiments or runs",
        "bisect": "find the first slower commit or interpreter",
        "scaling": "show speed-up and efficiency over devices, as table and figure",
        "explain": "say why a run of several devices takes as long as it does",
        "predict": "predict the exchange of gradients from a trace of layers",
        "nightly": "show the last nights of schedules, cell by cell",
        "history": "show a workload night by night, and what changed",
        "alerts": "show the alerts of the regression gate, or replay a history",
        "report": "write a report of an experiment (Markdown, HTML)",
        "passport": "write what others can compute results anew from",
        "verify": "compute the results of a passport anew",
        "export": "write results for other tools: CSV, JSON lines, Parquet, MLLOG",
        "observations": "check the TBD paper's observations on the results there are",
        "analyse": "analyse stored logs anew and show what that would change",
    },
    "operate": {
        "serve": "run the service",
        "schedule": "submit an experiment again and again, by cron",
        "nodes": "list the nodes, or drain, quarantine, resume one",
        "doctor": "check this machine and say what to do about each finding",
        "token": "make, list or revoke tokens: who may do what",
        "audit": "list who did what",
        "webhooks": "list, add or test addresses that are told of alerts",
        "rm": "remove an experiment with all that hangs on it",
        "ingest": "import the log of a job that ran without the service",
        "import": "bring along a history that another tool measured (milabench)",
        "db": "look at, check or migrate the database",
    },
}
COMMANDS: dict[str, str] = {name: text for group in GROUPS.values() for name, text in group.items()}
# Command -> its module.
MODULES = {name: f"orchestrator.cli.commands.{group}.{name}" for group, commands in GROUPS.items() for name in commands}

_NOTES = (
    "EXPERIMENT and RUN: an id, its beginning where that is enough, the name of an experiment (the newest of that "
    "name), or latest.",
    "The server is TBD_SERVER, else the one that owns TBD_DATA_DIR. Without one, what only looks reads the database.",
    "exit codes: 0 done, 1 a run failed, or the server did, 2 usage or an invalid spec, 3 a regression was found, "
    "4 unreachable or timed out, 5 not allowed, 130 interrupted",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = " ".join(["tbd", *words[:1]])
    streams.prepare()
    try:
        return _flushed(words)
    except CommandError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough
        streams.abandon_stdout()
        return DONE
    except OSError as error:  # stdout is a file on a full disk, more often than not
        streams.abandon_stdout()
        print(f"{name}: {error}", file=sys.stderr)
        return FAILED


def _flushed(words: list[str]) -> int:
    """Run it, and write what it printed: after that nobody could tell that it did not arrive."""
    try:
        return _run(words[0], words[1:]) if words and words[0] in COMMANDS else _without_command(words)
    finally:
        sys.stdout.flush()


def _run(name: str, words: list[str]) -> int:
    command: Any = importlib.import_module(MODULES[name])
    if hasattr(command, "hand_over"):  # serve: its own parser knows its options
        return int(command.hand_over(words))
    parser = Parser(prog=f"tbd {name}", description=command.__doc__)
    command.configure(parser)
    return int(command.execute(parser.parse_args(words)))


def _without_command(words: list[str]) -> int:
    """Help, the version, or what is wrong. argparse makes the text, so that it looks like the commands' own."""
    parser = Parser(
        prog="tbd",
        description="Measures how fast deep neural networks train, and says why a figure can be trusted.",
        usage="tbd COMMAND [options]",
        epilog=_listed(),
    )
    parser.add_argument("--version", action="store_true", help="print version and commit")
    parser.add_argument("command", nargs="*", help=argparse.SUPPRESS)
    known = parser.parse_args(words)
    if known.version:
        from workers.node.code_version import code_version, described

        print(f"tbd {described(code_version())}")
        return DONE
    if known.command:
        from orchestrator.domain.words.spelling import did_you_mean  # difflib is for mistakes only

        wrong = known.command[0]
        parser.error(f"there is no command {wrong!r}{did_you_mean(wrong, COMMANDS)}")
    parser.print_help()
    return DONE


def _listed() -> str:
    """The commands in their groups, each with what it does, in one column for all; then the notes."""
    longest = max(map(len, COMMANDS))
    groups = [
        "\n".join([f"{title}:", *(f"  {name:<{longest}}  {text}" for name, text in commands.items())])
        for title, commands in GROUPS.items()
    ]
    return "\n\n".join([*groups, *_NOTES])


if __name__ == "__main__":
    sys.exit(main())
