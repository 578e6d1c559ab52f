"""Check that a model is the same network in every framework that is installed here, and print by how much they differ.

tbd parity resnet-50
tbd parity resnet-50 --option depth=152
tbd parity lstm-classifier --frameworks tensorflow,mxnet

The same weights and the same batch must give the same loss, gradients and, after three updates, weights, as far as
single precision goes. PyTorch in double precision says what is exact. It takes a process per framework, some seconds
each, at the size tiny; nothing is measured and nothing is stored. It gives way to trainings on the CPU devices of this
machine: it is refused while a run holds one of them, and waits before its next process for one that has begun since.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.cli.exits import DONE, FAILED, USAGE, CommandError
from orchestrator.cli.machine import cpu_devices
from orchestrator.cli.printing import output
from orchestrator.cli.spec.spec_options import options_of

PHASE = "parity"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--size", default="tiny", help="one of the model's sizes (default tiny)")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the model")
    parser.add_argument(
        "--precision", default="fp32", help="fp32 (default), bf16 or amp-bf16, each by its own tolerance"
    )
    parser.add_argument("--frameworks", default="", help="some of the model's, separated by commas (default: all)")
    parser.add_argument("--batch", type=int, default=4, help="samples (default 4)")
    parser.add_argument("--seed", type=int, default=1, help="of weights and batch (default 1)")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def execute(options: argparse.Namespace) -> int:
    if options.batch < 2:
        raise CommandError(f"--batch {options.batch}: two samples at least, of one a normalisation has no variance")
    chosen = options_of(options.option)
    found = compared(
        options.model, options.size, options.frameworks, options.batch, options.seed, chosen, options.precision
    )
    if options.json:
        output.print_json(found)
    else:
        from orchestrator.reports.tables import parity_table

        print(parity_table.text(found, output.width()))
    counts = found["parameters"]
    well = all(one["same"] for one in found["frameworks"].values()) and counts["counted"] == counts["stated"]
    return DONE if well else FAILED


def compared(
    model: str,
    size: str,
    frameworks: str,
    batch: int,
    seed: int,
    options: Mapping[str, Any],
    precision: str = "fp32",
) -> dict[str, Any]:
    """What was found, as JSON. ``options``: those of the model that are not at their defaults.

    Raises:
        CommandError: there is nothing to compare, a run holds a CPU device, or the exact result cannot be computed.
    """
    from orchestrator.cli.rest import offline
    from orchestrator.domain.words.errors import InvalidRequest
    from orchestrator.services.probe import parity

    catalog = offline.catalog()
    try:
        facts = parity.model_of(catalog, model)
        names = parity.frameworks_of(facts, [one for one in frameworks.split(",") if one])
        table = parity.size_of(facts, size, options)
        lacking = {name: why for name in names if (why := parity.why_not_in(catalog, name, precision, model))}
    except InvalidRequest as error:
        raise CommandError(error.problems[0].message, USAGE) from None
    interpreters = {name: _interpreter(catalog, name) for name in {*names, parity.REFERENCE}}
    if not interpreters[parity.REFERENCE].ready:
        raise CommandError(f"the exact result is {parity.REFERENCE}'s: {interpreters[parity.REFERENCE].reason}", FAILED)
    devices = cpu_devices.offered()
    cores = sorted(core for device in devices for core in device.cores)
    cpu_devices.refuse_held(devices)
    with tempfile.TemporaryDirectory(prefix="tbd-parity-") as folder:
        bench = _Bench(
            Path(folder),
            interpreters,
            lambda name: parity.job(facts, name, table, batch, seed, cores, options, precision),
            lambda: cpu_devices.give_way(devices, output.say, time.sleep),
            precision,
        )
        results, skipped = bench.compare(parity.REFERENCE, [name for name in names if name not in lacking])
        skipped |= lacking
        found = {"margins": bench.margins(), "frameworks": results, "skipped": skipped}
        told = {**facts.facts_with(options), **table}
        stated = told.get("trainable_parameters", told["parameters"])
        found["parameters"] = {"counted": bench.trained(), "stated": stated}
    asked = {"model": model, "options": dict(options), "size": size, "batch": batch, "seed": seed}
    return {**asked, "precision": precision, **found}


def _interpreter(catalog: Any, framework: str) -> Any:
    from workers.node import interpreters

    return interpreters.resolve(catalog.frameworks[framework].strategies["single"].interpreter)


class _Bench:
    """Runs a process per framework, their files in one folder.

    Args:
        interpreters: framework -> what ``workers.node.interpreters.resolve`` says of its interpreter.
        job_of: framework -> its job.
        give_way: is called before each process.
        precision: of all but the exact result.
    """

    def __init__(
        self,
        folder: Path,
        interpreters: Mapping[str, Any],
        job_of: Callable[[str], dict[str, Any]],
        give_way: Callable[[], None],
        precision: str,
    ) -> None:
        self._precision = precision
        self._folder = folder
        self._interpreters = interpreters
        self._job_of = job_of
        self._give_way = give_way
        self._case = folder / "case.npz"
        self._exact: Mapping[str, Any] = {}

    def compare(self, reference: str, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
        """(framework -> its ``Parity`` as JSON, framework -> why it was skipped).

        Raises:
            CommandError: the exact result cannot be computed.
        """
        from workers.node.single_phase import PhaseError

        try:
            self._exact = self._result(reference, exactly=True)
        except PhaseError as error:
            raise CommandError(f"{reference} in double precision: {error}", FAILED) from None
        ready = [name for name in names if self._interpreters[name].ready]
        skipped = {name: self._interpreters[name].reason for name in names if name not in ready}
        return {name: self._judged(name) for name in ready}, skipped

    def trained(self) -> int:
        from orchestrator.analysis.probe import parity

        return parity.trained(self._exact)

    def margins(self) -> dict[str, float]:
        from orchestrator.analysis.probe import parity

        return {name: value for name, value in parity.margins(self._exact).items() if math.isfinite(value)}

    def _judged(self, framework: str) -> dict[str, Any]:
        import numpy as np

        from orchestrator.analysis.probe import parity
        from workers.node.single_phase import PhaseError

        try:
            found = self._result(framework)
        except PhaseError as error:
            return {"same": False, "problems": [str(error)]}
        return parity.judge(self._exact, found, np.load(self._case), self._precision).to_json()

    def _result(self, framework: str, exactly: bool = False) -> Mapping[str, Any]:
        """What a process has found; an array is read whenever it is asked for."""
        import numpy as np

        from orchestrator.services.probe import parity
        from workers.node import single_phase

        label = f"{framework} in double precision" if exactly else framework
        self._give_way()
        output.say(f"{label} …")
        folder = self._folder / label.replace(" ", "-")
        folder.mkdir()
        job, interpreter = self._job_of(framework), self._interpreters[framework]
        job = parity.exactly(job) if exactly else job
        found = folder / "found.npz"
        job |= {
            "interpreter": interpreter._asdict(),
            "parity": {"case": str(self._case), "makes_case": exactly, "found": str(found)},
        }
        single_phase.carry_out(job, PHASE, folder, parity.TIMEOUT_S)
        arrays: Mapping[str, Any] = np.load(found)
        return arrays
