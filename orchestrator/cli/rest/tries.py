"""The tries of a series (``tbd exec --series NAME``): a file of lines in the data directory, which only grows.

A try takes its level when it begins, so that one that was broken off has spent it. A line begins a try (``level`` and
what it is of), another one ends it (``kept`` and how).
"""

import fcntl
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.cli.exits import CommandError

LONGEST_NAME = 100


@dataclass(frozen=True)
class Try:
    """Try ``number``, from 1 on, and its level."""

    number: int
    level: float


class Series:
    """The series ``name`` of this data directory.

    Raises:
        CommandError: the name is none.
    """

    def __init__(self, name: str) -> None:
        from orchestrator.serve.settings import read_settings

        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name) or len(name) > LONGEST_NAME:
            raise CommandError(f"--series {name}: it is a name of small letters, digits and hyphens")
        self.name = name
        self.path: Path = read_settings().data_dir / "series" / f"{name}.jsonl"

    def begin(self, sides: Sequence[Mapping[str, Any]]) -> Try:
        """Take the level of the next try, which is of ``sides`` (label, commit, dirty_sha256): before, edited."""
        from orchestrator.analysis.statistics import tries

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # two that begin at once are two tries
            number = 1 + sum("level" in one for one in self._lines())
            found = Try(number, tries.level(number))
            line = {"try": number, "level": found.level, "sides": list(sides)}
            file.write(json.dumps(line) + "\n")
        return found

    def end(self, begun: Try, pair: Mapping[str, Any] | None, experiment_id: str) -> str:
        """Judge the try by the comparison of its two cells, and write it down; what to tell a person."""
        from orchestrator.analysis.statistics import tries

        said = (
            f"try {begun.number} of series {self.name}, at level {begun.level:.2%} (5 % for all its tries together): "
        )
        outcome: dict[str, Any] = {"try": begun.number, "experiment": experiment_id, "kept": False}
        measured = _difference(pair)
        if measured is None:
            said += "not kept: nothing could be compared"
        else:
            judged = tries.judge(*measured, begun.number)
            gain = math.expm1(measured[0])
            outcome |= {"kept": judged.kept, "gain_ratio": gain, "p": judged.p}
            outcome |= {"detectable_ratio": judged.detectable_ratio}
            said += f"{'kept' if judged.kept else 'not kept'}: {gain:+.1%}, p = {judged.p:.2g}; "
            said += f"a gain of {judged.detectable_ratio:.1%} would have been seen with 80 % probability"
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(outcome) + "\n")
        return said

    def ends(self) -> tuple[str, str]:
        """The commits that the series began with and that its last kept edit is.

        Raises:
            CommandError: none was kept, or one of them is no commit.
        """
        lines = self._lines()
        begun = {one["try"]: one["sides"] for one in lines if "level" in one}
        kept = [one["try"] for one in lines if one.get("kept")]
        if not kept:
            raise CommandError(f"series {self.name} of {len(begun)} tries has kept no edit: it claims nothing")
        first, last = begun[min(begun)][0], begun[kept[-1]][1]
        for one in (first, last):
            if one["commit"] is None or one["dirty_sha256"] is not None:
                raise CommandError(
                    f"{one['label']} was no commit, and cannot be run again: commit each edit, then try it"
                )
        return str(first["commit"]), str(last["commit"])

    def _lines(self) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
        except FileNotFoundError:
            return []
        except ValueError:
            raise CommandError(
                f"{self.path} is damaged: how much its tries have spent cannot be told. Begin another series"
            ) from None


def _difference(pair: Mapping[str, Any] | None) -> tuple[float, float, float] | None:
    """(mean difference of logarithms, its standard error, degrees of freedom) of two cells that were paired by block;
    None where they were not compared."""
    from scipy import special

    ratio = pair["ratio"] if pair else None
    if not ratio or ratio["ci_low"] is None or pair is None:
        return None
    degrees = pair["blocks"] - 1.0
    half = math.log(ratio["ci_high"] / ratio["ci_low"]) / 2
    return math.log(ratio["value"]), half / float(special.stdtrit(degrees, (1 + ratio["confidence"]) / 2)), degrees
