"""One process of an attempt: ``<python> -m workers.trainer --job PATH --events PATH [--phase NAME]``.

With ``--phase memory`` it makes the allocation profile instead of training (``workers.trainer.profiling``), with
``--phase counters`` it does one step for ``ncu`` to count (``workers.trainer.loops.counters``), with ``--phase parity``
it computes what all frameworks must agree on (``workers.trainer.loops.parity``).

Owns the process's beginning and end: it reads the job, takes the device locks, imports the framework if its role needs
one, runs the loop, and turns whatever went wrong into one ``error`` event and an exit status. Standard output and
standard error are left to the framework.
"""

import argparse
import importlib
import multiprocessing
import os
import platform
import sys
import time
import traceback
from typing import Any, Dict, Optional, Sequence, Tuple

from suites import modules
from workers.trainer import control, host, profiling, protocol
from workers.trainer.base import job as jobs
from workers.trainer.base import roles, waiting
from workers.trainer.base.failure import PEER_LOST, RESERVE, TrainerError, lacks_memory, lacks_space
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter, Emit
from workers.trainer.control import Channel
from workers.trainer.frameworks import fabric, horovod_gloo
from workers.trainer.loops import counters, parity
from workers.trainer.loops.calibration import Calibration
from workers.trainer.loops.convergence import Convergence
from workers.trainer.loops.netbench import Netbench
from workers.trainer.loops.training import Loop, Watch

# What a model measures, where it does not train -> the loop that times it.
RUNNERS: Dict[str, Any] = {"exchange": Netbench, "calibration": Calibration}
# How a model is trained -> its loop, where that is not ``Loop``.
MODES: Dict[str, Any] = {"convergence": Convergence}
# What processes of their own do instead of training.
PHASES = {"memory": profiling.allocations, "counters": counters.counted_step, "parity": parity.compute}
# Strategies whose scheduler is the same for all frameworks and needs none of them -> its verb. It is listening long
# before the workers have imported theirs.
SCHEDULERS = {"horovod": horovod_gloo.serve}


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run one process; return its exit status."""
    return carry_out(job_of(arguments))


def job_of(arguments: Optional[Sequence[str]] = None) -> Job:
    """Return the job that the command line names, with what it says of this process."""
    parser = argparse.ArgumentParser(prog="workers.trainer", description="One training process of an attempt.")
    parser.add_argument("--job", required=True, help="the job, a JSON file")
    parser.add_argument("--events", required=True, help="where this process appends its events")
    parser.add_argument("--phase", choices=["train", *PHASES], default="train", help="train, or make a profile")
    options = parser.parse_args(arguments)
    return jobs.read(options.job)._replace(
        # For the one model that can be told to spoil its own log, as a broken framework might.
        events_path=options.events,
        # Where the processes of a model's own roles meet their worker.
        folder=os.path.dirname(os.path.abspath(options.job)),
        # A framework may have to be told before it begins that its memory will be looked at.
        phase=options.phase,
    )


def carry_out(job: Job) -> int:
    """Run the process that ``job`` is for; return its exit status."""
    process = job.process
    assert job.events_path is not None, "the command line names it"
    writer = protocol.EventWriter(job.events_path, process.rank if process.ranks else None)
    try:
        return run(job, process, writer.emit)
    except MemoryError:
        # Not even the report of a failure found room: the exit status has to tell.
        return protocol.EXIT_STATUS["out_of_memory"]
    finally:
        writer.close()


def leaves_at_once(job: Job) -> bool:
    """Whether nobody is left to wait for the end of a process of ``job`` that has reported everything.

    Other ranks, servers and launchers wait for a farewell that a framework may say only as it is taken down, and
    ``ncu`` writes down what it has counted then. One that has given them up waits for nobody.
    """
    return waiting.left_behind() or (job.plan.strategy == "single" and job.phase == "train")


def run(job: Job, process: Process, emit: Emit) -> int:
    """Carry out ``process`` of ``job``; return the exit status, 0 if it finished."""
    locks = adapter = channel = None
    status = 0
    try:
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        emit("started", pid=os.getpid(), python=platform.python_version(), niceness=niceness)
        if process.role in protocol.MODEL_ROLES:
            modules.part_of(job, process.role).serve(job, process)
            # Without this word the agent takes it for lost.
            if roles.worker_has_gone():
                emit("finished", steps=0, weights_sha256=None)
            return status
        locks = host.lock_devices(job.lock_dir, process.devices)
        fabric.check(job, process)
        fabric.apply(job, process)
        scheduler = SCHEDULERS.get(job.plan.strategy)
        if process.role == "scheduler" and scheduler:
            scheduler(job)
            return status
        adapter = load(job.plan.framework)
        if process.role == "worker":
            # Of the processes before these, some may not have ended yet: rank 0 of theirs is not ours.
            channel = control.open_channel(job, process, again=job.phase != "train")
            if job.phase in PHASES:
                PHASES[job.phase](job, process, adapter, channel, emit, Watch(time.monotonic), time.monotonic)
            else:
                runner = RUNNERS.get(job.model.measures or "", MODES.get(job.plan.mode, Loop))
                runner(job, process, adapter, channel, emit).run()
        else:
            emit("versions", **adapter.versions())
            adapter.serve(job, process)
    except Exception as error:
        RESERVE.clear()
        error, kind = explained(error, failure_of(error, adapter), job, process, channel)
        if channel and lies_here(error, process):
            channel.fail(kind, str(error))
        emit_error(emit, kind, error)
        status = protocol.EXIT_STATUS[kind]
    for part in (channel, adapter):
        if part:
            part.close()
    del locks
    return status


def explained(
    error: Exception, kind: str, job: Job, process: Process, channel: Optional[Channel]
) -> Tuple[Exception, str]:
    """Return ``error`` and its kind; where it only says that a peer has gone, what the control channel knows of it.

    Where that knows nothing, a rank hangs or the network between them is cut. Of two processes the other one is blamed.
    """
    if kind != PEER_LOST:
        return error, kind
    found = channel.culprit() if channel else None
    if found is None:
        others = [rank for rank in job.leading_ranks if rank not in process.ranks]
        found = TrainerError(
            "timed_out", "another rank does not answer: %s" % error, others if len(others) == 1 else None
        )
    found.__cause__ = error
    return found, found.kind


def lies_here(error: Exception, process: Process) -> bool:
    """Whether the cause of ``error`` is in this process, so that the other ranks do not know of it yet."""
    ranks = getattr(error, "ranks", None)
    return not ranks or process.rank in ranks


def load(framework: str) -> Adapter:
    """Return the adapter of ``framework``, a name that the orchestrator has checked against the adapters' facts.

    Raises:
        TrainerError: the framework cannot be imported in this interpreter: ``setup_failed``, or ``out_of_memory``.
    """
    try:
        return importlib.import_module("workers.trainer.frameworks.%s.adapter" % framework).Adapter()
    except Exception as error:
        kind = "out_of_memory" if lacks_memory(error) else "setup_failed"
        message = "%s cannot be imported by %s: %s" % (framework, sys.executable, error or type(error).__name__)
        raise TrainerError(kind, message) from error


def failure_of(error: Exception, adapter: Optional[Adapter]) -> str:
    """Return the failure kind of ``error``, or ``PEER_LOST``; an adapter knows the exceptions of its framework."""
    if lacks_space(error):
        return "no_space"
    if isinstance(error, TrainerError):
        return error.kind
    if lacks_memory(error):
        return "out_of_memory"
    return (adapter.failure_of(error) if adapter else None) or "crashed"


def emit_error(emit: Emit, kind: str, error: Exception) -> None:
    """Report ``error``; where memory is short, a traceback may be too much to ask. Where it cannot be
    written, the exit status has to tell."""
    try:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except MemoryError:
        trace = ""
    sys.stderr.write(trace)
    ranks = getattr(error, "ranks", None)
    try:
        emit(
            "error",
            failure=kind,
            type=type(error).__name__,
            message=str(error)[:4000],
            traceback=trace[-16000:],
            ranks=ranks,
        )
    except OSError as unwritten:
        sys.stderr.write("the error could not be reported: %s\n" % unwritten)


def leave(status: int, at_once: bool = False) -> None:
    """End the process. After a failure, and ``at_once``, a framework's own clean-up is left out: it may wait for ranks
    that are gone, and holds the devices for another second. Without a framework's own processes, which it would end.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if status or (at_once and not multiprocessing.active_children()):
        os._exit(status)
    sys.exit(0)


if __name__ == "__main__":
    own = job_of()
    leave(carry_out(own), leaves_at_once(own))
