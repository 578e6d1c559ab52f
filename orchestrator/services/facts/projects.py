"""What the service knows of a project: a model whose facts have a table ``[command]`` (docs/use/exec.md).

Everything else of a model that trains a network is not there. The command stays on the disks of the nodes: no spec and
no job can say one, and the log of a run says what it was.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.domain.asked.catalog import FrameworkFacts, StrategyFacts
from orchestrator.domain.words.errors import SettingsError
from workers.trainer.base import project
from workers.trainer.protocol import OWN_DATA, OWN_SCRIPT

_KEYS = ("name", "domain", "command", "options", "maintainers")
_UNITS = {"samples": "as the script's loader gives them", "tokens": "the entries of input_ids that its loader gives"}

_BY_COMMAND: dict[str, Any] = {"interpreter": "system", "max_nodes": 1, "launcher": "command"}
# What projects train with: nothing of ours. The command starts the ranks, however it does; what they train with, and in
# which precision, is theirs to say.
FRAMEWORK = FrameworkFacts(
    name=OWN_SCRIPT,
    devices=("cpu", "cuda"),
    precisions=("fp32",),
    abilities=("kernels", "memory"),
    strategies={
        "single": StrategyFacts("single", max_devices_per_node=1, **_BY_COMMAND),
        OWN_SCRIPT: StrategyFacts(OWN_SCRIPT, max_devices_per_node=64, **_BY_COMMAND),
    },
    data_on={"cpu": ("host",), "cuda": ("device",)},
)


def facts_of(path: Path, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a project as those of any model, without its command.

    Raises:
        SettingsError: the file says what no project has, or its command is none.
    """
    if strange := sorted(set(told) - set(_KEYS)):
        raise SettingsError(f"{path}: a project has {', '.join(_KEYS)}, and no {strange[0]}")
    try:
        project.check(told["command"], told.get("options", {}))
    except ValueError as error:
        raise SettingsError(f"{path}: [command]: {error}") from None
    unit = told["command"].get("unit", "steps")
    return {
        **{name: value for name, value in told.items() if name != "command"},
        "domain": told.get("domain", "own script"),
        "work_unit": unit,
        "work_unit_definition": _UNITS.get(unit, "as the script counts them"),
        "frameworks": [OWN_SCRIPT],
        "sizes": {"full": {}},
        "datasets": [OWN_DATA],
        "loss": "noted",
        "named_in_command": project.names_in(told["command"]["words"]),
    }
