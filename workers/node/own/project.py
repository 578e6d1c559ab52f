"""Carries out a project: a command that stands on this node's own disk, as a model under ``TBD_SUITE_PATH``.

No command comes over the network. The job names the model, and has values of its options; the words, the folder and
the environment are those of ``[command]`` in the ``model.toml`` that this node's operator has put there. It runs as the
agent's user, on the devices of the job and while their locks are held, and its ranks have to be as many as these.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Mapping, Sequence

from workers.node import children, suites
from workers.node.event_log import EventLog
from workers.node.outcome import Failure
from workers.node.own import jobs, repository
from workers.node.own.script import Command, OwnScript
from workers.node.prepare import SetupError
from workers.node.supervisor import Surroundings
from workers.trainer.base import project
from workers.trainer.base.failure import TrainerError

OWN_COMMAND = "command"  # the ``launcher`` of a strategy whose ranks are started by the model's own command


class Project(OwnScript):
    """One attempt at a run of a project, of one node."""

    def __init__(self, job: Mapping[str, Any], folder: Path, log: EventLog, around: Surroundings) -> None:
        super().__init__(None, job, folder, log, around)
        self._holding = ExitStack()

    def _run(self) -> Failure | None:
        with self._holding:
            return super()._run()

    def _complete(self) -> SetupError | None:
        problem = super()._complete()
        if problem is not None:
            return problem
        try:
            table, place = command_of(self._job)
            self._command = self._made(table, place)
            self._job["interval_s"] = max(self._job["interval_s"], jobs.INTERVAL_S)
            self._holding.enter_context(jobs.held(self._devices()))
        except (SetupError, repository.RepositoryError, TrainerError) as error:
            return SetupError(str(error))
        return None

    def _made(self, table: Mapping[str, Any], place: Path) -> Command:
        """The command with the values of this job; what is to be known of its code goes into the job.

        Raises:
            SetupError: a value cannot stand there, or there is no such folder.
            RepositoryError: there is no such commit.
        """
        folder = place / Path(table.get("folder", ".")).expanduser()
        if not folder.is_dir():
            raise SetupError(f"there is no folder {folder} on this node, where the command is to run")
        folder, code = self._code(folder, table.get("commit"))
        try:
            words = project.filled(table["words"], self._values())
        except ValueError as error:
            raise SetupError(str(error)) from None
        asked: dict[str, Any] = {name: table.get(name) for name in ("work", "unit")}
        self._job["script"] = {"words": [jobs.printable(word) for word in words], **asked, **code}
        limit = self._job["plan"].get("memory_limit_bytes")
        memory_bytes = None if limit is None else int(limit) * len(self._devices())
        environment = self._environment(table)
        found = shutil.which(
            words[0] if os.sep not in words[0] else str(folder / words[0]), path=environment.get("PATH")
        )
        if found is None:
            raise SetupError(f"there is no command {words[0]} on this node, in {folder} or on the PATH of the project")
        cores = {core for one in self._devices() for core in one.get("cores") or ()}
        return Command([found, *words[1:]], folder, environment, sorted(cores) or self._cores(), memory_bytes)

    def _code(self, folder: Path, commit: str | None) -> tuple[Path, dict[str, Any]]:
        """Where the command runs, and which code that is. ``pinned``: it goes with the project's facts."""
        if commit is not None:
            target = self._folder / "code"
            repository.take_out(folder, commit, target)
            return target, {"commit": commit, "dirty_sha256": None, "pinned": True}
        if self._folder in folder.parents:  # it was taken out of the suite's repository with the facts
            return folder, {"commit": self._job["interpreter"]["suite_commit"], "dirty_sha256": None}
        return folder, repository.code_of(folder)

    def _values(self) -> dict[str, Any]:
        plan = self._job["plan"]
        return {
            **plan["options"],
            "devices": len(self._devices()),
            "per_device_batch_size": plan["per_device_batch_size"],
            "seed": plan["seed"],
        }

    def _environment(self, table: Mapping[str, Any]) -> dict[str, str]:
        """The agent's, without what is tbd's, Ray's or Python's, and the project's own environment first on PATH."""
        gpus = [str(one["id"]) for one in self._devices() if one["kind"] == "cuda"]
        found = children.environment(children.inherited(self._job), {"CUDA_VISIBLE_DEVICES": ",".join(gpus)})
        if "environment" in table:
            prefix = Path(table["environment"]).expanduser()
            if not (prefix / "bin").is_dir():
                raise SetupError(f"there is no folder {prefix / 'bin'} on this node: environment is a prefix with one")
            found["PATH"] = os.pathsep.join(filter(None, [str(prefix / "bin"), found.get("PATH")]))
        return found

    def _devices(self) -> list[dict[str, Any]]:
        return [device for process in self._job["processes"] for device in process["devices"]]

    def _joined(self, told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return jobs.counted(self._job, told[0])

    def _wrong(self, told: Sequence[Mapping[str, Any]]) -> Failure | None:
        size, wanted = int(told[0]["world_size"]), len(self._devices())
        device, planned = told[0]["device"], self._job["plan"]["device"]
        unit, declared = told[0]["unit"], self._job["model"]["work_unit"]
        if size != wanted:
            message = f"the command trains with {size} ranks, and the plan has {wanted} devices: say {{devices}} in it"
        elif device != planned:
            message = f"the command trains on a {device} device, and was given {planned} devices"
        elif unit != declared:
            message = f"the steps of the command have {unit}, and the project declares {declared}: correct its unit"
        else:
            return None
        return Failure("unsupported", self._ranks(), message=message)


def command_of(job: Mapping[str, Any]) -> tuple[Mapping[str, Any], Path]:
    """Return ``[command]`` of the job's model as this node has it, and the folder of its facts.

    Raises:
        SetupError: there is none, or it is not what it may be.
    """
    import tomllib

    name, module = job["model"].get("name"), job["model"].get("module")
    suite = suites.folder_of(job)
    if suite is None:
        raise SetupError(f"the project {name} is in no folder of TBD_SUITE_PATH on this node")
    place = suite / str(module)
    try:
        facts = tomllib.loads((place / "model.toml").read_text(encoding="utf-8"))
        project.check(facts.get("command"), facts.get("options", {}))
    except (OSError, ValueError) as error:  # of them a TOMLDecodeError
        raise SetupError(f"{place / 'model.toml'}: [command]: {error}") from None
    missing = sorted(
        set(project.names_in(facts["command"]["words"])) - set(project.BUILT_IN) - set(job["plan"]["options"])
    )
    if missing:
        raise SetupError(f"the project {name} has an option {missing[0]} on this node that the service does not know")
    return facts["command"], place
