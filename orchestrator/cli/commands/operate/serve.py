"""Run the service: REST on loopback, the reconciler, the cluster. All settings are TBD_* variables."""

import os
import sys

from orchestrator.cli.exits import DONE, UNREACHABLE, CommandError
from orchestrator.cli.rest.locate import data_dir
from orchestrator.domain.words.errors import DataDirectoryInUse, SettingsError
from orchestrator.serve import serve_options
from orchestrator.serve.data_directory import DataDirectory

APP = [sys.executable, "-m", "orchestrator.app", "serve"]


def hand_over(words: list[str]) -> int:
    """Become the service: this process is replaced, so signals reach it as they should."""
    if "-h" in words or "--help" in words:
        serve_options.parser().print_help()
        _print_variables()
        return DONE
    serve_options.parser().parse_args(words)
    # Owned before the second that the imports take: a command that comes meanwhile waits for this server.
    directory = _owned()
    return os.execv(sys.executable, [*APP, "--owner-fd", str(directory.hand_over()), *words])


def _owned() -> DataDirectory:
    try:
        return DataDirectory(data_dir()).open()
    except SettingsError as error:
        raise CommandError(str(error)) from None
    except DataDirectoryInUse as error:
        raise CommandError(str(error), UNREACHABLE) from None


def _print_variables() -> None:
    from orchestrator.serve.settings import CLIENT_VARIABLES, NODE_VARIABLES, VARIABLES

    service = {name: (default, text) for name, (_, default, text) in VARIABLES.items()}
    groups = (("the service", service), ("each node", NODE_VARIABLES), ("the command line", CLIENT_VARIABLES))
    for title, variables in groups:
        print(f"\nenvironment of {title}:")
        for name, (default, text) in variables.items():
            print(f"  {name:<22}{text}" + (f" (default {default})" if default else ""))
