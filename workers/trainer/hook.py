"""Watches a training script that is not ours, from inside its own process.

One file of the standard library. ``tbd exec`` puts it first on PYTHONPATH as ``sitecustomize``, and it says what it
sees in events of ``workers.trainer.protocol``; ``tbd exec --write-hook`` copies it as ``tbd_hook``, for scripts that
name their steps themselves (``begin``, ``step``, ``phase``). It prints nothing, imports nothing of its own before a
script trains, and no error of its own reaches the script: after one it watches no more, and says so in the log.

A step is a call of the optimiser that holds the most numbers. Calls nested in it, and those of smaller optimisers,
are part of it. Its work is what the training loader gave since the step before. A loader is one for training when a
backward pass follows its batch; other loaders, batches without gradients and a model in its evaluation mode are a
phase, and so is saving a checkpoint: phases are no part of an interval's duration.

Whoever steps first as a rank is that rank; other processes say nothing. So workers of loaders and of compilers do not
count, whatever started them.
"""

import os
import sys
import time

TYPE_CHECKING = False  # what ``typing`` calls so, without its import: it would cost the script milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

FOLDER_VARIABLE = "TBD_EXEC"
SETTINGS = "hook.json"
CONTROL = "control.json"  # where rank 0 listens, once that is known: see ``Meter._address``

# Judgements. Steps that are seen before anything is said: they show which optimiser is the largest, and whether a
# loader gives the work. How many an optimiser may do while a larger one that was made has done none. Intervals in a
# row that may be without work: a loader that fetches ahead gives none in the last step of an epoch. Seconds that ranks
# wait for each other.
WATCHED = 3
WAITED_FOR = 25
WITHOUT_WORK = 5
PATIENCE_S = 120.0
LARGEST_GROWTH = 10.0

EVALUATION, CHECKPOINT = "evaluation", "checkpoint"
BY_ITSELF = "the script has ended"  # why there are no more steps, where nobody has told it to end


class TroubleError(Exception):
    """Nothing can be watched any more; the message is for a person, ``kind`` one of ``protocol.FAILURE_KINDS``.
    ``ranks``: those that it is about, where they are others."""

    def __init__(self, kind: str, message: str, ranks: "Tuple[int, ...]" = ()) -> None:
        Exception.__init__(self, message)
        self.kind = kind
        self.ranks = list(ranks)


class Report(object):
    """The events of one rank, in a file that this process alone has made."""

    def __init__(self, folder: str, rank: int) -> None:
        import json

        self._json = json
        self.rank = rank
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(os.path.join(folder, "rank-%d.events.jsonl" % rank), flags, 0o600)

    def emit(self, kind: str, at: "Optional[float]" = None, **data: "Any") -> None:
        """Append an event of the moment ``at`` of the monotonic clock; None: of now."""
        now = time.monotonic()
        t = now if at is None else at
        event = {"t": t, "wall": time.time() - (now - t), "kind": kind, "rank": self.rank, "data": data}
        line = self._json.dumps(event, allow_nan=False, separators=(",", ":")) + "\n"
        os.write(self._file, line.encode("utf-8"))


class Channel(object):
    """An end of the control channel, in the words of ``workers.trainer.control``: rank 0 listens, and says before each
    interval how many steps come next."""

    def __init__(self, address: "Any", token: str, rank: int, world_size: int) -> None:
        import hmac
        import json
        import select
        import socket

        self._hmac, self._json, self._select, self._socket = hmac, json, select, socket
        self._token = token
        self._rank = rank
        self._others = world_size - 1
        self._rests: "Dict[Any, bytes]" = {}
        self._who: "Dict[Any, Any]" = {}
        self._ready: "Any" = set()
        self._inbox: "List[Any]" = []
        self._stop: "Optional[str]" = None
        self._listener: "Any" = None
        if rank == 0:
            self._listener = socket.socket()
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(tuple(address))
            self._listener.listen(128)
        else:
            self._leader = self._connected(tuple(address))
            self._send(self._leader, {"token": token, "rank": rank})

    def turn(self, steps: int, proposal: "Dict[str, Any]") -> "Dict[str, Any]":
        """Return the order for the next interval; ``proposal`` is rank 0's.

        Raises:
            TroubleError: a rank did not come to this step, or has gone.
        """
        deadline = time.monotonic() + PATIENCE_S
        if self._rank != 0:
            self._send(self._leader, {"ready": steps})
            while not self._inbox:
                self._poll(deadline, "rank 0 gave no order after step %d" % steps)
            return dict(self._inbox.pop(0))
        self._look(0.0)
        while len(self._ready) < self._others:
            missing = self._others - len(self._ready)
            self._poll(deadline, "%d of %d ranks did not come to step %d" % (missing, self._others + 1, steps))
        self._ready.clear()
        order = proposal
        if self._stop is not None:
            order = {"stop": self._stop, "hold": proposal.get("hold", False)}
        for connection, who in self._who.items():
            if who != "agent":
                self._send(connection, order)
        return order

    def _connected(self, address: "Any") -> "Any":
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                connection = self._socket.create_connection(address, timeout=PATIENCE_S)
                self._rests[connection], self._who[connection] = b"", 0
                return connection
            except OSError:
                if time.monotonic() > deadline:
                    raise TroubleError("timed_out", "rank 0 did not listen on %s:%s" % address)
                time.sleep(0.01)

    def _send(self, connection: "Any", message: "Any") -> None:
        try:
            connection.sendall((self._json.dumps(message) + "\n").encode("utf-8"))
        except OSError:
            pass  # noticed where it is read from

    def _poll(self, deadline: float, what: str) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TroubleError("timed_out", what + " within %d s" % PATIENCE_S)
        self._look(left)

    def _look(self, wait_s: float) -> None:
        poll = self._select.poll()
        sources = {one.fileno(): one for one in self._rests}
        if self._listener is not None:
            sources[self._listener.fileno()] = self._listener
        for number in sources:
            poll.register(number, self._select.POLLIN)
        for number, _ in poll.poll(wait_s * 1000):
            if sources[number] is self._listener:
                connection = self._listener.accept()[0]
                connection.setsockopt(self._socket.IPPROTO_TCP, self._socket.TCP_NODELAY, 1)
                self._rests[connection] = b""
            else:
                self._read(sources[number])

    def _read(self, connection: "Any") -> None:
        try:
            data = connection.recv(65536)
        except OSError:
            data = b""
        lines = (self._rests[connection] + data).split(b"\n")
        self._rests[connection] = lines.pop()
        known = all(self._take(connection, line) for line in lines)
        if not data or not known:
            connection.close()
            del self._rests[connection]
            who = self._who.pop(connection, "agent")
            if who != "agent":
                raise TroubleError("crashed", "rank %s has gone" % who, (who,))

    def _take(self, connection: "Any", line: bytes) -> bool:
        """Take in one message; False where a stranger has sent it, who is not listened to."""
        try:
            message = self._json.loads(line.decode("utf-8"))
            told = str(message.get("token")).encode("utf-8")
        except (ValueError, AttributeError):
            return False
        if self._rank != 0:
            self._inbox.append(message)
        elif connection not in self._who:
            if not self._hmac.compare_digest(told, self._token.encode("utf-8")):
                return False
            self._who[connection] = message.get("role") or message.get("rank")
        elif "stop" in message:
            self._stop = str(message["stop"])
        else:
            self._ready.add(self._who[connection])
        return True


class Meter(object):
    """Counts the steps of this process, and times intervals of them. It knows no framework.

    Attributes:
        source: what knows more of the process: see ``Source``.
        over: nothing is watched any more.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.pid = os.getpid()
        self.began = time.monotonic()
        self.source = Source()
        self.report: "Optional[Report]" = None
        self.over = False
        self.leave_now = os._exit
        self._told_to_end = False
        # Python 3.6 cannot tell: there each look asks the kernel, which costs more than the rest of it.
        tell = getattr(os, "register_at_fork", None)
        self._hears_of_forks = tell is not None
        if tell is not None:
            tell(after_in_child=self._forked)
        self.steps = 0
        self.mark: "Optional[float]" = None
        self.unit = ""
        self.until = WATCHED
        self.work: "Dict[str, float]" = {}
        self.waited_s: "Optional[float]" = None
        self.left_out = 0
        self.loss: "Any" = None
        self.step_s = 0.0  # of the last step before the first interval ends
        self._settings: "Dict[str, Any]" = {}
        self._channel: "Any" = None
        self._done = 0
        self._timed = 0
        self._kind = "warmup"
        self._empty = 0
        self._paused: "Dict[str, float]" = {}
        self.phase: "Optional[str]" = None
        self._phase_began = 0.0
        self._profiles: "Any" = None

    @property
    def active(self) -> bool:
        """Not in a child that was forked, whose copy this is, nor after the end."""
        return not self.over and (self._hears_of_forks or self.pid == os.getpid())

    def _forked(self) -> None:
        self.over = True

    def end_at_last(self) -> None:
        """End a script that trains on though it was told to end: it has caught what should have ended it."""
        if self._told_to_end and self.pid == os.getpid():
            self.leave_now(0)

    def restart(self) -> None:
        """Begin to time now: what was before is no part of a step."""
        self.mark, self.waited_s, self._paused = time.monotonic(), 0.0, {}

    def enter(self, name: str) -> None:
        """Begin the phase ``name``, unless another one lasts."""
        if self.phase is None:
            self.source.synchronize()
            self.phase, self._phase_began = name, time.monotonic()

    def leave(self, name: "Optional[str]" = None) -> None:
        """End the phase that lasts, if it is ``name``; None: whichever it is."""
        if self.phase is None or name not in (None, self.phase):
            return
        self.source.synchronize()
        now = time.monotonic()
        if self.mark is not None and now > self.mark:
            spent_s = now - max(self._phase_began, self.mark)
            self._paused[self.phase] = self._paused.get(self.phase, 0.0) + spent_s
        self.phase = None

    def step(self, work: "Dict[str, float]") -> None:
        """Take in that a step is over, which did ``work`` by unit."""
        if self.phase is not None:
            self.leave()
        self.steps += 1
        for unit, amount in work.items():
            self.work[unit] = self.work.get(unit, 0.0) + amount
        if self.steps >= self.until:
            if self._profiles is None:
                self._interval()
            else:
                self._profile()

    def claim(self, goes_on: bool) -> bool:
        """Become the rank that this process is; False where another process is that one already."""
        import json

        with open(os.path.join(self.folder, SETTINGS)) as file:
            self._settings = json.load(file)
        rank, world_size = self.source.place()
        try:
            self.report = Report(self.folder, rank)
        except FileExistsError:
            self.over = True
            note(self.folder, another=rank)
            return False
        self.unit = self._settings["unit"] or self.source.unit(self.steps)
        said = self.source.facts()
        mark = self.began if self.mark is None else self.mark
        more = {"world_size": world_size, "unit": self.unit}
        more.update(said["place"])
        self.report.emit("started", self.began, pid=self.pid, python=sys.version.split()[0], **more)
        self.report.emit("versions", mark, **said["versions"])
        self.report.emit("joined", mark, world_size=world_size)
        self.report.emit("built", mark, build_s=mark - self.began, **said["built"])
        if goes_on:
            self._channel = Channel(self._address(rank), self._settings["token"], rank, world_size)
        return True

    def _address(self, rank: int) -> "Any":
        """Return where rank 0 listens. Of several nodes each has an address for the case that rank 0 is its own; the
        one that counts is written down when the nodes have told each other which ranks they have.

        Raises:
            TroubleError: they have not, for too long.
        """
        if rank == 0 or not self._settings["several_nodes"]:
            return self._settings["control"]
        import json

        path, deadline = os.path.join(self.folder, CONTROL), time.monotonic() + PATIENCE_S
        while not os.path.exists(path):
            if time.monotonic() > deadline:
                raise TroubleError("timed_out", "no node said within %d s that it has rank 0" % PATIENCE_S)
            time.sleep(0.01)
        with open(path) as file:
            return json.load(file)

    def _amounts(self, n: int) -> "Dict[str, float]":
        found = {"steps": float(n)}
        found.update((unit, amount) for unit, amount in self.work.items() if amount)
        if self._settings["work"] is not None:
            found[self.unit] = float(self._settings["work"]) * n
        return found

    def _interval(self) -> None:
        """An interval is over: report it, ask how long the next one is, begin it."""
        if self.report is None and not self.claim(goes_on=True):
            return
        self.source.synchronize()
        now = time.monotonic()
        n = self.steps - self._done
        duration_s = max(now - (self.mark or now) - sum(self._paused.values()), 1e-9)
        amounts = self._amounts(n)
        order = self._channel.turn(self.steps, self._next(n, duration_s, not amounts.get(self.unit)))
        if not order.get("hold"):
            self._tell(now, n, duration_s, amounts)
        if "stop" in order:
            assert self.report is not None
            names = () if order["stop"] == "cancelled" else self._settings["profile"]
            self._conclude(order["stop"])
            self._profiles = self.source.profiles(names, self._settings["tools"], self.report.emit)
            self._profile()
            return
        self.until = self.steps + int(order["go"])
        if not order.get("hold"):
            self.mark = time.monotonic()

    def _profile(self) -> None:
        """What was to be timed is there. Let the next profile begin; end the script where none is left."""
        steps = next(self._profiles, 0)
        self.until = self.steps + steps
        if not steps:
            self._close(together=True)
            self._told_to_end = True
            raise SystemExit(0)

    def _tell(self, now: float, n: int, duration_s: float, amounts: "Dict[str, float]") -> None:
        assert self.report is not None
        amounts.setdefault(self.unit, 0.0)
        more: "Dict[str, Any]" = {}
        if self.waited_s is not None:
            more["input_s"] = min(self.waited_s, duration_s)
        if self._paused:
            more["paused_s"] = dict(self._paused)
        left_out = max(self.left_out, self.source.left_out())
        if left_out:
            more["left_out"] = left_out
        self.report.emit(
            "interval",
            now,
            phase=self._kind,
            first_step=self._done + 1,
            n=n,
            duration_s=duration_s,
            work=amounts,
            **more,
        )
        loss = self.source.number(self.loss)
        if loss is not None:
            self.report.emit("loss", step=self.steps, value=loss)
        if self._kind == "timed":
            self._timed += n
        self._kind, self._done = "timed", self.steps
        self.work, self.left_out, self.loss, self._paused = {}, 0, None, {}
        self.waited_s = None if self.waited_s is None else 0.0

    def _next(self, n: int, duration_s: float, empty: bool) -> "Dict[str, Any]":
        """What comes next, of rank 0; the others are not asked for it."""
        self._empty = self._empty + 1 if empty else 0
        if self._empty > WITHOUT_WORK:
            message = "the last %d steps had no %s: say with --work and --unit what a step does" % (n, self.unit)
            raise TroubleError("unsupported", message)
        if empty:
            return {"go": 1, "hold": True}
        most = self._settings["max_steps"]
        timed = self._timed + (n if self._kind == "timed" else 0)
        if most is not None and timed >= most:
            return {"stop": "max_steps"}
        wanted_s, each_s = self._settings["interval_s"], duration_s / n
        if self._kind == "warmup":
            n, each_s = 1, self.step_s or each_s
        elif wanted_s / 2 <= duration_s <= wanted_s * 4 or n == 1 and duration_s > wanted_s:
            each_s = wanted_s / n  # as many again
        growth = LARGEST_GROWTH if self._kind == "timed" else LARGEST_GROWTH**2
        go = int(max(1.0, min(wanted_s / each_s + 0.5, n * growth)))
        return {"go": go if most is None else max(1, min(go, most - timed))}

    def at_exit(self) -> None:
        """The process ends: by an error of the script's, which Python has just printed, or as it should."""
        error = getattr(sys, "last_value", None)
        if error is None or self._profiles is not None:  # an error after the timed part costs a profile at most
            self.finish()
        elif self.report is not None:
            self.give_up(TroubleError("crashed", "%s: %s" % (type(error).__name__, error)))

    def finish(self, reason: str = BY_ITSELF) -> None:
        """Say how it ended. Nothing is watched afterwards."""
        if not self.active:
            return
        if self._profiles is not None:
            self._profiles.close()
            self._close()
            return
        self.source.ending()
        if self.report is None and self.steps and not self.claim(goes_on=False):
            return
        self.over = True
        if self.report is None:
            return
        if not self._done:
            n = self.steps
            duration_s = max(time.monotonic() - (self.mark or 0.0) - sum(self._paused.values()), 1e-9)
            amounts = self._amounts(n)
            self._tell(time.monotonic(), n, duration_s, amounts)
        self._conclude(reason)
        for name in self._settings["profile"]:
            no_profile(
                name, "the script ended before it could be made: give fewer --steps or --seconds", self.report.emit
            )
        self._close()

    def _conclude(self, reason: str) -> None:
        """The last interval is over."""
        assert self.report is not None
        self.report.emit("stopped", step=self._done, reason=reason)
        self.report.emit("memory", **self.source.memory())

    def _close(self, together: bool = False) -> None:
        """Say the last word; ``together``: all ranks do so after the same step."""
        assert self.report is not None
        self.over = True
        self.report.emit("finished", steps=self._done, weights_sha256=self.source.digest(together))

    def give_up(self, error: BaseException) -> None:
        """Watch no more, and say why: the script goes on as if nobody had watched."""
        self.over = True
        kind = error.kind if isinstance(error, TroubleError) else "crashed"
        message = (
            str(error) if isinstance(error, TroubleError) else "in the hook: %s: %s" % (type(error).__name__, error)
        )
        ranks = getattr(error, "ranks", None) or None
        try:
            if self.report is None:
                note(self.folder, problem=message)
            else:
                more: "Dict[str, Any]" = {
                    "type": type(error).__name__,
                    "message": message,
                    "traceback": "",
                    "ranks": ranks,
                }
                self.report.emit("error", failure=kind, **more)
        except Exception:
            pass


class Source(object):
    """What a meter asks of the framework. This one knows none: the script names its steps itself."""

    named_unit = "samples"

    def synchronize(self) -> None:
        """Wait until the device has done what it was given."""

    def ending(self) -> None:
        """Say what was not said yet."""

    def place(self) -> "Tuple[int, int]":
        """Return (rank, world size)."""
        for rank, size in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")):
            if os.environ.get(rank, "").isdigit() and os.environ.get(size, "").isdigit():
                return int(os.environ[rank]), int(os.environ[size])
        return 0, 1

    def unit(self, steps: int) -> str:
        return self.named_unit

    def facts(self) -> "Dict[str, Any]":
        """Return the data of ``versions`` and ``built``, and ``place``: what ``started`` says besides."""
        return {
            "versions": {"framework": "own-script", "version": None, "libraries": libraries()},
            "built": {"parameters": 0, "mathematics": {}, "device": "cpu"},
            "place": {"device": "cpu", "framework": "own-script", "synchronous": False},
        }

    def left_out(self) -> int:
        return 0

    def number(self, loss: "Any") -> "Any":
        """Return ``loss`` as it travels; None where there is none."""
        if loss is None:
            return None
        value = float(loss)
        if value != value:
            return "NaN"
        return value if abs(value) != float("inf") else "Infinity" if value > 0 else "-Infinity"

    def memory(self) -> "Dict[str, Any]":
        method = "peak resident set of the process (VmHWM)"
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return {"peak_bytes": int(line.split()[1]) * 1024, "method": method}
        return {"peak_bytes": None, "method": method, "reason": "the kernel reports no VmHWM"}

    def digest(self, together: bool) -> "Optional[str]":
        """Return the SHA-256 of the weights, where ranks must have equal ones and can tell; else None."""
        return None

    def profiles(self, names: "Any", tools: str, emit: "Any") -> "Any":
        """Make the profiles ``names``: see ``frameworks.pytorch.watched.phases``; ``tools``: the folder of tbd."""
        for name in names:
            no_profile(name, "only steps of PyTorch's optimisers are profiled", emit)
        return iter(())


class Torch(Source):
    """What is looked at of PyTorch, from 2.0 on. Each method named in ``PLACES`` is given a module just imported."""

    PLACES = {
        "torch": "_see_torch",
        "torch.optim.optimizer": "_see_optimizers",
        "torch.utils.data.dataloader": "_see_loaders",
        "torch._tensor": "_see_tensors",
        "torch.nn.modules.module": "_see_modules",
        "torch.nn.parallel.distributed": "_see_replicas",
        "torch.amp.grad_scaler": "_see_scalers",
        "torch.cuda.amp.grad_scaler": "_see_scalers",
        "torch.serialization": "_see_saving",
        "safetensors.torch": "_see_saving",
    }

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._torch: "Any" = None
        self._made: "Dict[int, Any]" = {}
        self._seen: "Dict[int, List[Any]]" = {}
        self._stack: "List[int]" = []
        self._main: "Any" = None
        self._probe: "Any" = None
        self._held = 0
        self._device: "Any" = None
        self._dtype = ""
        self._calls = 0
        self._pending: "Dict[int, Tuple[float, float]]" = {}
        self._training: "Any" = set()
        self._last_loader: "Optional[int]" = None
        self._batches = 0
        self._unscaled: "Tuple[int, Any]" = (0, None)
        self._scaler: "Any" = None
        self._scale: "Optional[float]" = None
        self._cuda = False
        self._is_ddp = False
        self._listener: "Any" = None  # is told which part of a step begins: ``frameworks.pytorch.watched.Known``

    # Where it looks. What happens in each step has no ``careful``: a call costs as much as what it does.

    def see(self, name: str, module: "Any") -> None:
        getattr(self, self.PLACES[name])(module)

    def _see_torch(self, torch: "Any") -> None:
        import atexit

        self._torch = torch
        meter = self._meter

        def leave(status: int) -> None:
            careful(meter, meter.finish)
            meter.leave_now(status)

        note(meter.folder, torch=str(torch.__version__))
        atexit.register(careful, meter, meter.at_exit)
        os._exit = leave  # type: ignore[assignment]

    def _see_optimizers(self, module: "Any") -> None:
        before = getattr(module, "register_optimizer_step_pre_hook", None)
        after = getattr(module, "register_optimizer_step_post_hook", None)
        if before is None or after is None:
            problem = "this PyTorch is older than 2.0, and does not say when an optimiser steps"
            note(self._meter.folder, problem=problem)
            return
        meter = self._meter

        def stepping(optimizer: "Any", *_: "Any") -> None:
            if not meter.over:
                try:
                    self._stepping(optimizer)
                except Exception as error:
                    meter.give_up(error)
            else:
                meter.end_at_last()

        def stepped(optimizer: "Any", *_: "Any") -> None:
            if not meter.over:
                try:
                    self._stepped(optimizer)
                except Exception as error:
                    meter.give_up(error)

        before(stepping)
        after(stepped)
        self._wrap(module.Optimizer, "__init__", after=self._make)

    def _see_loaders(self, module: "Any") -> None:
        cls = module._BaseDataLoaderIter
        given, meter = cls.__next__, self._meter

        def following(iterator: "Any") -> "Any":
            if meter.over:
                return given(iterator)
            try:
                self._asked(iterator)
            except Exception as error:
                meter.give_up(error)
            began = time.monotonic()
            batch = given(iterator)
            if not meter.over:
                try:
                    self._got(iterator, batch, time.monotonic() - began)
                except Exception as error:
                    meter.give_up(error)
            return batch

        cls.__next__ = following

    def _see_tensors(self, module: "Any") -> None:
        import functools

        given, meter = module.Tensor.backward, self._meter

        @functools.wraps(given)
        def backward(tensor: "Any", *args: "Any", **more: "Any") -> "Any":
            if not meter.over:
                try:
                    self._backward(tensor)
                except Exception as error:
                    meter.give_up(error)
            result = given(tensor, *args, **more)
            if self._listener is not None:
                careful(meter, self._listener, "forward")
            return result

        module.Tensor.backward = backward

    def _see_modules(self, module: "Any") -> None:
        self._wrap(module.Module, "eval", before=self._evaluates)
        self._wrap(module.Module, "train", before=self._trains)

    def _see_replicas(self, module: "Any") -> None:
        self._wrap(module.DistributedDataParallel, "__init__", before=lambda *_, **__: setattr(self, "_is_ddp", True))

    def _see_scalers(self, module: "Any") -> None:
        cls = module.GradScaler
        if "step" in vars(cls):
            self._wrap(cls, "scale", around=self._scaled)
            self._wrap(cls, "step", around=self._scaler_steps)

    def _see_saving(self, module: "Any") -> None:
        name = "save" if hasattr(module, "save_file") is False else "save_file"
        self._wrap(module, name, around=self._saves)

    def _wrap(self, owner: "Any", name: str, before: "Any" = None, after: "Any" = None, around: "Any" = None) -> None:
        """Have ``owner.name`` tell when it is called: nothing else of it changes."""
        import functools

        given, meter = getattr(owner, name), self._meter

        @functools.wraps(given)
        def called(*args: "Any", **more: "Any") -> "Any":
            if meter.over:
                return given(*args, **more)
            if around is not None:
                return around(given, *args, **more)
            if before is not None:
                careful(meter, before, *args, **more)
            result = given(*args, **more)
            if after is not None:
                careful(meter, after, *args, **more)
            return result

        setattr(owner, name, called)

    # what it sees

    def _make(self, optimizer: "Any", *_: "Any", **__: "Any") -> None:
        import weakref

        self._made[id(optimizer)] = weakref.ref(optimizer)

    def _stepping(self, optimizer: "Any") -> None:
        key, meter = id(optimizer), self._meter
        if key in self._stack:  # what was left of a step that raised: no optimiser steps within itself
            del self._stack[self._stack.index(key) :]
        self._stack.append(key)
        if meter.mark is None:
            meter.mark = time.monotonic()
        if self._listener is not None:
            self._listener("update")

    def _stepped(self, optimizer: "Any") -> None:
        self._calls += 1
        key, stack = id(optimizer), self._stack
        if key not in stack:
            return
        del stack[stack.index(key) :]
        if self._main is not None:
            main = self._main()
            if main is None and not stack and _numbers(optimizer) == self._held:  # the next fold, or the like
                self._hold(optimizer)
                main = optimizer
            if main is optimizer:
                self._step()
            return
        entry = self._seen.setdefault(key, [0, (_numbers(optimizer), not self._stack), 0.0, 0.0, optimizer])
        now = time.monotonic()
        entry[0], entry[2], entry[3] = entry[0] + 1, now, now - entry[2] if entry[0] else 0.0
        if not self._stack:
            self._choose(certain=False)

    def _choose(self, certain: bool) -> None:
        """Choose the optimiser whose steps count, once it is known which is the largest."""
        calls, (numbers, _), _, self._meter.step_s, largest = max(self._seen.values(), key=lambda one: one[1])
        if not certain and calls < WATCHED:
            return
        made = [one for one in (found() for found in self._made.values()) if one is not None]
        if not certain and calls < WAITED_FOR and any(_numbers(one) > numbers for one in made):
            return
        self._hold(largest)
        self._seen.clear()
        self._meter.steps = calls - 1
        self._step()

    def _hold(self, optimizer: "Any") -> None:
        """Have the steps of ``optimizer`` count. It is not kept alive."""
        import weakref

        probe = max(_parameters(optimizer), key=lambda one: one.numel())
        self._main, self._probe = weakref.ref(optimizer), weakref.ref(probe)
        self._held, self._device, self._dtype = _numbers(optimizer), probe.device, str(probe.dtype)
        self._cuda = probe.device.type == "cuda"

    def _step(self) -> None:
        work = {}
        if self._pending:
            samples = tokens = 0.0
            for loader, given in self._pending.items():
                if loader in self._training:
                    samples, tokens = samples + given[0], tokens + given[1]
            self._pending.clear()
            work = {"samples": samples, "tokens": tokens} if tokens else {"samples": samples}
        self._meter.step(work)

    def _asked(self, iterator: "Any") -> None:
        meter, training = self._meter, self._training
        if self._listener is not None:
            self._listener("input")
        if not self._torch.is_grad_enabled() or (training and id(iterator._dataset) not in training):
            meter.enter(EVALUATION)
            return
        if meter.phase is not None:
            meter.leave(EVALUATION)
        if not self._calls and not training:  # before the first backward pass nothing has been trained
            meter.restart()

    def _got(self, iterator: "Any", batch: "Any", waited_s: float) -> None:
        if self._listener is not None:
            self._listener("forward")
        if not self._torch.is_grad_enabled():
            return
        loader = id(iterator._dataset)
        samples, tokens = _size(batch)
        if loader in self._pending:
            given = self._pending[loader]
            samples, tokens = samples + given[0], tokens + given[1]
        self._pending[loader] = (samples, tokens)
        self._last_loader = loader
        if not self._training or loader in self._training:
            self._batches += 1
            self._meter.waited_s = (self._meter.waited_s or 0.0) + waited_s

    def _backward(self, tensor: "Any") -> None:
        meter = self._meter
        if self._listener is not None:
            self._listener("backward")
        if meter.phase is not None:
            meter.leave(EVALUATION)
        if meter.mark is None:
            meter.mark = time.monotonic()
        if self._last_loader is not None:
            self._training.add(self._last_loader)
        if meter.steps + 1 >= meter.until:
            key, loss = self._unscaled
            loss = loss if key == id(tensor) else tensor
            meter.loss = loss.detach() if loss.numel() == 1 else None

    def _evaluates(self, module: "Any", *_: "Any", **__: "Any") -> None:
        probe = self._probe() if self._probe is not None else None
        if probe is not None and any(one is probe for one in module.parameters()):
            self._meter.enter(EVALUATION)

    def _trains(self, module: "Any", mode: bool = True) -> None:
        if mode:
            self._meter.leave(EVALUATION)

    def _scaled(self, given: "Any", scaler: "Any", *args: "Any", **more: "Any") -> "Any":
        result = given(scaler, *args, **more)
        careful(self._meter, self._note_scale, scaler, result, *args)
        return result

    def _note_scale(self, scaler: "Any", result: "Any", outputs: "Any" = None) -> None:
        self._scaler = scaler
        if result is not outputs and hasattr(outputs, "detach"):
            self._unscaled = (id(result), outputs.detach())

    def _scaler_steps(self, given: "Any", scaler: "Any", optimizer: "Any", *args: "Any", **more: "Any") -> "Any":
        calls = self._calls
        result = given(scaler, optimizer, *args, **more)
        if self._calls == calls:
            self._meter.left_out += 1
        return result

    def _saves(self, given: "Any", *args: "Any", **more: "Any") -> "Any":
        careful(self._meter, self._meter.enter, CHECKPOINT)
        try:
            return given(*args, **more)
        finally:
            careful(self._meter, self._meter.leave, CHECKPOINT)

    # what the meter asks

    def synchronize(self) -> None:
        if self._cuda:
            self._torch.cuda.synchronize(self._device)

    def ending(self) -> None:
        if self._main is None and self._seen and not self._meter.steps:
            self._meter.until = sys.maxsize
            self._choose(certain=True)

    def place(self) -> "Tuple[int, int]":
        distributed = self._torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
        return Source.place(self)

    def unit(self, steps: int) -> str:
        return "samples" if self._batches >= steps else "steps"

    def facts(self) -> "Dict[str, Any]":
        torch, main = self._torch, self._main()
        gpu = None
        if self._cuda:
            uuid = getattr(torch.cuda.get_device_properties(self._device), "uuid", None)
            gpu = None if uuid is None else "GPU-%s" % uuid
        kind = "cuda" if self._cuda else "cpu"
        mathematics = {"parameters_dtype": self._dtype, "threads": torch.get_num_threads()}
        try:
            mathematics["float32_matmul_precision"] = torch.get_float32_matmul_precision()
        except RuntimeError:  # a script that sets it by newer means: the older ones do not tell then
            pass
        place = {
            "device": kind,
            "gpu": gpu,
            "framework": "pytorch",
            "synchronous": self._is_ddp or self._is_sharded(_parameters(main)),
        }
        place["optimizer"] = type(main).__name__
        return {
            "versions": {"framework": "pytorch", "version": str(torch.__version__), "libraries": libraries()},
            "built": {"parameters": self._held, "mathematics": mathematics, "device": kind},
            "place": place,
        }

    def left_out(self) -> int:
        """Return 1 where the scale of the losses fell: a fused optimiser is called in a step that it leaves out."""
        found = getattr(self._scaler, "_scale", None)
        before, self._scale = self._scale, None if found is None else float(found)
        return int(before is not None and self._scale is not None and self._scale < before)

    def memory(self) -> "Dict[str, Any]":
        if self._cuda:
            peak = int(self._torch.cuda.max_memory_allocated(self._device))
            return {"peak_bytes": peak, "method": "torch.cuda.max_memory_allocated"}
        return Source.memory(self)

    def digest(self, together: bool) -> "Optional[str]":
        import hashlib

        main, found = self._main(), hashlib.sha256()
        sharded = main is not None and self._is_sharded(_parameters(main))
        if main is None or not (self._is_ddp or sharded) or sharded and not together:
            return None
        try:
            for one in _parameters(main):
                whole = one.detach().full_tensor() if sharded else one.detach()
                found.update(whole.cpu().contiguous().view(-1).view(self._torch.uint8).numpy().tobytes())
        except Exception:  # no numpy, or parameters of another kind
            return None
        return found.hexdigest()

    def _is_sharded(self, parameters: "Any") -> bool:
        """Whether each parameter is divided among all ranks, and among nobody else: not the stages of a pipeline."""
        ranks = self.place()[1]
        meshes = [getattr(one, "device_mesh", None) for one in parameters]
        return ranks > 1 and all(mesh is not None and mesh.size() == ranks for mesh in meshes)

    def profiles(self, names: "Any", tools: str, emit: "Any") -> "Any":
        if not names:
            return iter(())
        try:
            module = _tool(tools)
            known = module.Known(self._device, self._all_parameters, self._optimizers, self._listen)
            # Operations are counted where kernels are asked for: a step of its own, which is slow.
            return module.phases(list(names) + ["operations"] * ("kernels" in names), known, emit)
        except Exception as error:
            for name in names:
                no_profile(name, "what makes it cannot be imported here: %s" % error, emit)
            return iter(())

    def _optimizers(self) -> "List[Any]":
        return [one for one in (found() for found in self._made.values()) if one is not None]

    def _all_parameters(self) -> "List[Any]":
        return list({id(one): one for optimizer in self._optimizers() for one in _parameters(optimizer)}.values())

    def _listen(self, listener: "Any") -> None:
        self._listener = listener


class Finder(object):
    """Stands first among the finders of modules, and has ``Torch`` look at some of them when they were just imported.
    The loader that imports them stays the one that it is."""

    def __init__(self, meter: Meter, torch: Torch) -> None:
        self._meter = meter
        self._torch = torch
        self._wanted = set(torch.PLACES)

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in self._wanted:
            return None
        self._wanted.discard(name)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if finder is not self and find is not None else None
            if spec is not None:
                self._follow(spec, name)
                return spec
        return None

    def _follow(self, spec: "Any", name: str) -> None:
        loader = spec.loader
        given = getattr(loader, "exec_module", None)
        if given is None:
            return

        def exec_module(module: "Any") -> None:
            del loader.exec_module
            given(module)
            careful(self._meter, self._torch.see, name, module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass


def careful(meter: Meter, what: "Callable[..., Any]", *args: "Any", **more: "Any") -> None:
    """Do ``what``, if anything is watched; no error of ours reaches the script. What ends the script does."""
    if not meter.active:
        return
    try:
        what(*args, **more)
    except Exception as error:
        meter.give_up(error)


def note(folder: str, **what: "Any") -> None:
    """Leave a word for whoever started the script, beside the events: why there may be none."""
    import json

    try:
        descriptor = os.open(os.path.join(folder, "notes.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, (json.dumps(dict(what, pid=os.getpid())) + "\n").encode("utf-8"))
        os.close(descriptor)
    except OSError:
        pass


def no_profile(name: str, message: str, emit: "Any") -> None:
    """Say why there is no profile ``name``."""
    emit("profile_failed", profile=name, failure={"kind": "unsupported", "ranks": [], "message": message})


def _tool(folder: str) -> "Any":
    """Import what makes profiles from ``folder``, where tbd lies; ``sys.path`` is as it was afterwards."""
    import importlib

    sys.path.insert(0, folder)
    try:
        return importlib.import_module("workers.trainer.frameworks.pytorch.watched")
    finally:
        sys.path.remove(folder)


def libraries() -> "Dict[str, str]":
    """Return the versions of the packages that the process has imported, as they themselves say."""
    found = {}
    for name in sorted(one for one in sys.modules if "." not in one and not one.startswith("_")):
        told = vars(sys.modules[name]) if hasattr(sys.modules[name], "__dict__") else {}
        if isinstance(told.get("__version__"), str) and "-packages" in (told.get("__file__") or ""):
            found[name] = told["__version__"][:100]
    return dict(list(found.items())[:200])


def _parameters(optimizer: "Any") -> "List[Any]":
    return [one for group in optimizer.param_groups for one in group["params"]]


def _numbers(optimizer: "Any") -> int:
    """How many numbers an optimiser holds; 0 where it does not say."""
    try:
        return sum(one.numel() for one in _parameters(optimizer))
    except Exception:
        return 0


def _size(batch: "Any") -> "Tuple[float, float]":
    """Return (samples, tokens) of a batch: the first dimension of its first tensor, the entries of ``input_ids``."""
    if not isinstance(batch, (list, tuple)) and hasattr(batch, "keys") and hasattr(batch, "values"):
        if "input_ids" in batch.keys():
            ids = batch["input_ids"]
            return float(ids.shape[0]), float(ids.numel())
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        for one in batch:
            found = _size(one)
            if found[0]:
                return found
        return 0.0, 0.0
    shape: "Any" = getattr(batch, "shape", ())
    return (float(shape[0]) if len(shape) else 0.0), 0.0


# What a script may call, which names its steps itself. Outside ``tbd exec`` these do nothing.

METER: "Optional[Meter]" = None


def begin(unit: str = "samples") -> None:
    """Say that training begins now, and that ``step`` counts work in ``unit``."""
    if METER is not None and METER.active and METER.report is None:
        careful(METER, _begin, METER, unit)


def _begin(meter: Meter, unit: str) -> None:
    import atexit

    meter.source = Source()
    meter.source.named_unit = unit
    meter.mark = time.monotonic()
    atexit.register(careful, meter, meter.at_exit)
    note(meter.folder, begun=True)


def step(work: float = 1, loss: "Any" = None) -> None:
    """Say that a step is over, which has done ``work`` and whose loss was ``loss``."""
    if METER is not None:
        METER.end_at_last()
        careful(METER, _named_step, METER, float(work), loss)


def _named_step(meter: Meter, work: float, loss: "Any") -> None:
    if meter.mark is None:
        _begin(meter, "samples")
    meter.loss = loss
    meter.step({meter.source.named_unit: work})


class phase(object):  # noqa: N801 - it is used as a function: ``with phase("evaluation"):``
    """What lies within is no part of a step's time, but shown beside it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        if METER is not None:
            careful(METER, METER.enter, self._name)

    def __exit__(self, *_: "Any") -> None:
        if METER is not None:
            careful(METER, METER.leave, self._name)


def _activate() -> None:
    """Begin to watch, where ``tbd exec`` has started this process or one before it."""
    global METER
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or METER is not None or not os.path.isdir(folder):
        return
    METER = Meter(folder)
    METER.source = torch = Torch(METER)
    sys.modules.setdefault("tbd_hook", sys.modules[__name__])
    for name in [one for one in torch.PLACES if one in sys.modules]:
        careful(METER, torch.see, name, sys.modules[name])
    sys.meta_path.insert(0, Finder(METER, torch))


def _make_way() -> None:
    """Leave ``sys.path`` as it was without us, and run the ``sitecustomize`` that we stand before."""
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.abspath(one) != own or not one]
    this = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401 - it is for what it does
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", this)


_activate()
if __name__ == "sitecustomize":
    _make_way()
