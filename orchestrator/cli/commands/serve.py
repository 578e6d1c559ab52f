"""Run the service: REST on loopback, the reconciler, the cluster. All settings are TBD_* variables."""

import os
import subprocess
import sys

APP = [sys.executable, "-m", "orchestrator.app", "serve"]


def hand_over(words: list[str]) -> int:
    """Become the service: this process is replaced, so signals reach it as they should."""
    if "-h" in words or "--help" in words:
        code = subprocess.run([*APP, "--help"]).returncode
        _print_variables()
        return code
    return os.execv(sys.executable, [*APP, *words])


def _print_variables() -> None:
    from orchestrator.settings import CLIENT_VARIABLES, NODE_VARIABLES, VARIABLES

    service = {name: (default, text) for name, (_, default, text) in VARIABLES.items()}
    groups = (("the service", service), ("each node", NODE_VARIABLES), ("the command line", CLIENT_VARIABLES))
    for title, variables in groups:
        print(f"\nenvironment of {title}:")
        for name, (default, text) in variables.items():
            print(f"  {name:<22}{text}" + (f" (default {default})" if default else ""))
