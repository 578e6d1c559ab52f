"""Do the tests notice when the product is broken? Faults are seeded at places drawn by chance.

``make seeded-faults`` runs it. Each fault changes one line inside a function of a copy of the tree: an operator, a
constant, a call left out, a condition negated. Then the tests run, up to the first that fails: those of ``make test``
whose files came to the broken function when all of them ran once with the copy whole, the quick ones first. Texts are
left alone. A fault that nobody could notice, because the program means the same, is drawn as well: so the share that is
noticed is for comparing one tree with another, by the same seed, and does not reach one.
"""

import argparse
import ast
import contextlib
import itertools
import math
import os
import queue
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("domain", "analysis", "services", "serve", "db", "cluster", "api", "reports", "cli")
FOLDERS = (*(f"orchestrator/{room}" for room in ROOMS), "workers/node", "workers/trainer", "suites")
PYTEST = "pytest itself"  # which cannot even load the tests
SELECTION = "tests"
QUICK = ("tests/unit/", "tests/replays/", "tests/architecture/")
# A statement of any process, in any Python that we run, that says by an empty file which test came by.
PASSING = (
    """__import__("pathlib").Path({folder!r}, "{number}," + __import__("os").environ.get("PYTEST_CURRENT_TEST", "")"""
    """.partition("::")[0].replace("/", ",")).touch()"""
)
MOST_S = 900.0  # of the tests of one fault: a judgement; some faults hang
PAIRS = (
    (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn), (ast.Is, ast.IsNot), (ast.And, ast.Or),
)  # fmt: skip
OTHER: dict[type, Any] = {**dict(PAIRS), **{b: a for a, b in PAIRS}, ast.FloorDiv: ast.Mult}
LOGS = re.compile(r"^(_?log(ger|ging)?|_?LOG(GER)?)\.|^warnings\.")


class Fault(NamedTuple):
    """The text ``before`` from byte ``start`` of a file on becomes ``after``."""

    path: str
    line: int
    start: int
    before: str
    after: str

    def __str__(self) -> str:
        short = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.path}:{self.line}  " + "  became  ".join(t if len(t) < 60 else t[:57] + "…" for t in short)

    def within(self, text: bytes) -> bytes:
        return text[: self.start] + self.after.encode() + text[self.start + len(self.before.encode()) :]


def faults(path: str, text: str) -> Iterator[Fault]:
    """All that can be seeded in a file."""
    whole = text.encode()
    begins = [0]
    for line in whole.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    for node, after in _within_functions(ast.parse(text)):
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[cast(int, node.end_lineno) - 1] + cast(int, node.end_col_offset)
        yield Fault(path, node.lineno, start, whole[start:end].decode(), after)


def _within_functions(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                yield from _changes(statement)
        else:
            yield from _within_functions(node)


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """(What can be changed, what it becomes), of a statement and all in it; not what is a text or an annotation."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.arguments) or _is_log(node):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node, "pass"
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield node.test, f"(not ({ast.unparse(node.test)}))"
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OTHER and not _is_text(node):
        parts = {**vars(node), "op": OTHER[type(node.op)]()}
        yield node, f"({ast.unparse(type(node)(**parts))})"
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        operator = OTHER[type(node.ops[0])]()
        yield node, f"({ast.unparse(ast.Compare(node.left, [operator], node.comparators))})"
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        yield node, repr(not node.value if isinstance(node.value, bool) else node.value + 1)
    for name, part in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for one in part if isinstance(part, list) else [part]:
                if isinstance(one, ast.AST):
                    yield from _changes(one)


def _is_log(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and bool(LOGS.match(ast.unparse(node)))


def _is_text(node: ast.BinOp | ast.BoolOp) -> bool:
    return any(isinstance(one, ast.JoinedStr) or isinstance(getattr(one, "value", 0), str) for one in ast.walk(node))


def with_signs(text: str, signs: Iterable[tuple[int, str]]) -> str:
    """A file in which functions begin with a statement of their own: (a line within the function, the statement)."""
    lines = text.splitlines(keepends=True)
    functions = list(_functions(ast.parse(text)))
    placed = [(next(one for one in functions if one.lineno <= line <= one.end), told) for line, told in signs]
    for function, statement in sorted(placed, reverse=True):  # from below, so that lines stay where they are
        lines.insert(function.begins - 1, " " * function.column + statement + "\n")
    return "".join(lines)


class _Function(NamedTuple):
    """Its lines, and where its body begins after a docstring."""

    lineno: int
    end: int
    begins: int
    column: int


def _functions(tree: ast.AST) -> Iterator[_Function]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            if body:
                begins = min(one.lineno for one in (body[0], *getattr(body[0], "decorator_list", ())))
                yield _Function(node.lineno, cast(int, node.end_lineno), begins, body[0].col_offset)
        else:
            yield from _functions(node)


def first_failed(told: str) -> str:
    """The first test that failed, by what pytest printed; above its summary what a test logged may begin with ERROR."""
    *_, summary = told.rpartition("short test summary info")
    found = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", summary, re.MULTILINE)
    return found[1] if found else PYTEST


def drawn(root: Path, count: int, seed: int) -> list[Fault]:
    """So many faults, one of each room by turns; in a room a file is as likely as it is large."""
    chance = random.Random(seed)
    rooms = {folder: sorted((root / folder).rglob("*.py")) for folder in chance.sample(FOLDERS, len(FOLDERS))}
    found: dict[Fault, None] = {}
    for paths in itertools.cycle(rooms.values()):
        if len(found) == count:
            return list(found)
        possible: list[Fault] = []
        while not possible:
            path = chance.choices(paths, [one.stat().st_size for one in paths])[0]
            new = faults(str(path.relative_to(root)), path.read_text("utf-8"))
            possible = [one for one in new if one not in found]
        found[chance.choice(possible)] = None
    raise AssertionError("there are rooms")


class Copy:
    """A copy of the tree that may be broken. ``deadline`` is when there is no more time; ``left_out``, tests that
    failed without a fault or by chance."""

    def __init__(self, folder: Path, selection: Sequence[str], deadline: float) -> None:
        self._root, self._selection, self._deadline = folder, selection, deadline
        self.left_out: list[str] = []
        listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, text=True)
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)  # some tests ask git which files there are
        subprocess.run(["git", "add", "-A"], cwd=folder, check=True)

    def passed_by(self, seeded: Sequence[Fault], processes: int) -> list[set[str]]:
        """The files of tests that come to each fault's function, all tests run once; "" for what comes there while no
        test runs."""
        by_path: dict[str, list[tuple[int, str]]] = {}
        with tempfile.TemporaryDirectory(prefix="tbd-passed-by-") as folder:
            os.chmod(folder, 0o777)  # some tests run as somebody else
            for number, fault in enumerate(seeded):
                by_path.setdefault(fault.path, []).append((fault.line, PASSING.format(folder=folder, number=number)))
            whole = {path: (self._root / path).read_bytes() for path in by_path}
            try:
                for path, signs in by_path.items():
                    self._write(self._root / path, with_signs(whole[path].decode(), signs).encode())
                several = ["-n", str(processes), "--dist", "loadgroup", "--no-loadscope-reorder"]
                self._run([*self._selection, *several], math.inf)
            finally:
                for path, text in whole.items():
                    self._write(self._root / path, text)
            found: list[set[str]] = [set() for _ in seeded]
            for sign in os.listdir(folder):
                number_, _, name = sign.partition(",")
                found[int(number_)].add(name.replace(",", "/"))
        return found

    def outcome(self, fault: Fault, passed_by: set[str]) -> tuple[str, str]:
        """(What came of it, by which test), of the tests that come to it."""
        target = self._root / fault.path
        whole = target.read_bytes()
        broken = fault.within(whole)
        try:
            self._write(target, broken)
            for selection in self._coming_by(passed_by):
                while selection and (failed := self._failed([*selection, *self._deselected()])):
                    if failed == PYTEST or self._because(failed, target, whole, broken):
                        return "noticed", failed
                    self.left_out.append(failed)
            return "unnoticed", ""
        except TimeoutError:
            return "no time", ""
        finally:
            self._write(target, whole)

    def _because(self, test: str, target: Path, whole: bytes, broken: bytes) -> bool:
        """Whether it is the fault that ``test`` fails for: a test of its file fails again with it, and that one not
        without it. By itself it might pass: some faults show in the second test that comes by."""
        file = test.partition("::")[0]
        again = self._failed([file, *self._deselected()])
        if not again:
            return False
        self._write(target, whole)
        fails_anyway = self._failed([again])
        self._write(target, broken)
        return not fails_anyway

    def _deselected(self) -> list[str]:
        return [word for test in self.left_out for word in ("--deselect", test)]

    def collects(self) -> bool:
        return self._run([*self._selection, "--collect-only"])[0] == 0

    def _coming_by(self, files: set[str]) -> tuple[list[str], list[str]]:
        """(The quick ones, the others)."""
        if "" in files:
            return [*QUICK], [*self._selection]
        quick = sorted(file for file in files if file.startswith(QUICK))
        return quick, sorted(files.difference(quick))

    def _failed(self, selection: Sequence[str]) -> str | None:
        """The first test of a selection that fails; None when all pass."""
        status, told = self._run([*selection, "-n", "0", "-x", "-rfE"])
        return None if status in (0, 5) else first_failed(told)  # 5: there are none

    def _run(self, arguments: Sequence[str], most_s: float = MOST_S) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(self._root), "TBD_LOCK_DIR": str(self._root / ".locks")}
        process = subprocess.Popen(
            command, cwd=self._root, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            told, _ = process.communicate(timeout=max(0.0, min(most_s, self._deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # so that fixtures end what they have started
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=30)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise TimeoutError from None
        return process.returncode, told

    @staticmethod
    def _write(target: Path, text: bytes) -> None:
        """Also without what was compiled: its age is told in whole seconds, which is too coarse here."""
        target.write_bytes(text)
        for compiled in target.parent.glob(f"__pycache__/{target.stem}.*.pyc"):
            compiled.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--select", default=SELECTION, help=f"arguments of pytest (default: {SELECTION})")
    parser.add_argument("--budget", type=float, default=3600.0, metavar="S", help="seconds in all (default: an hour)")
    parser.add_argument("--jobs", type=int, default=1, help="copies that are tested at the same time")
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.budget
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="tbd-seeded-faults-") as folder:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(options.jobs):
            copies.put(Copy(Path(folder, str(number)), shlex.split(options.select), deadline))
        if not (first := copies.get()).collects():
            print("the tests cannot even be collected in a copy of the tree", file=sys.stderr)
            return 2
        copies.put(first)

        seeded = drawn(ROOT, options.faults, options.seed)
        passed_by = first.passed_by(seeded, options.jobs)

        def tried(fault: Fault, files: set[str]) -> None:
            copy = copies.get()
            came, test = copy.outcome(fault, files)
            copies.put(copy)
            counts[came] += 1
            print(f"{came:<9} {fault}" + (f"  by {test}" if test else ""), flush=True)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(tried, seeded, passed_by))
        for test in sorted({test for _ in range(options.jobs) for test in copies.get().left_out}):
            print(f"left out, as it fails without a fault as well, or by chance: {test}")
    print(", ".join(f"{count} {came}" for came, count in sorted(counts.items())) + f", seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
