"""Which names of PyTorch's CUDA side the project uses, found in the source, and what each of them says without a GPU.

``python -m tests.gpu.names`` in an interpreter that has PyTorch, with CUDA or without: every name is there, takes the
arguments that it is given, and where there is no GPU answers or says in PyTorch's own words that there is none. Exit
status 1 where one does not. It needs no driver, and measures nothing.
"""

import ast
import inspect
import re
import sys
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("workers", "suites")

# What belongs to CUDA among the names of ``torch``; ``amp`` and ``autocast`` are told what kind of device it is.
OF_CUDA = re.compile(r"^torch\.(cuda|backends\.cuda|backends\.cudnn|version\.cuda|amp|autocast|.*\bCUDA\b)")
# What is called on tensors, streams and events, and is there for GPUs only.
METHODS = {"cuda", "elapsed_time", "get_device", "is_pinned", "ipc_handle", "pin_memory", "record_event"}
METHODS |= {"record_stream", "wait_event", "wait_stream"}

# What a build without CUDA says of ``set_device``. No training gets there: it asks for a GPU first.
LACKS = "module 'torch._C' has no attribute '_cuda_setDevice'"
# What PyTorch says where it is built without CUDA, where there is no driver, and where there is no GPU.
THERE_IS_NONE = re.compile(
    "Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available|"
    "Cannot access accelerator device when none is available|no CUDA-capable device is detected|"
    "CUDA driver version is insufficient for CUDA runtime version|Both events must be recorded|"
    "Tried to instantiate dummy base class|Cannot initialize CUDA|Invalid device argument"
)


class Use(NamedTuple):
    """``name``: dotted, a method as ``.name``; ``arguments``: (number of those by position, names of those by name) of
    a call, None where it is no call; ``where``: file and line."""

    name: str
    arguments: Optional[Tuple[int, Tuple[str, ...]]]
    where: str


def uses(root: Path = ROOT) -> List[Use]:
    """Return all uses in the project's source."""
    found: List[Use] = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if re.search(r"^\s*(import|from) torch\b", text, re.MULTILINE):
                found += in_source(text, str(path.relative_to(root)))
    return found


def in_source(text: str, where: str) -> List[Use]:
    """Return the uses in one file. An alias (``from torch import cuda as c``) is the name that it stands for."""
    tree = ast.parse(text)
    aliases = dict(_aliases(tree))
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    inner: Set[int] = set()
    found = []
    for node in ast.walk(tree):
        if id(node) in inner or not isinstance(node, (ast.Attribute, ast.Name)):
            continue
        name = _dotted(node, aliases)
        if name is not None:
            # Of torch.cuda.synchronize the parts torch and torch.cuda are no uses of their own.
            inner.update(id(part) for part in ast.walk(node) if part is not node)
        elif isinstance(node, ast.Attribute) and node.attr in METHODS and id(node) in calls:
            name = "." + node.attr
        if name is None or not (name.startswith(".") or OF_CUDA.match(name)):
            continue
        call = calls.get(id(node))
        arguments = (len(call.args), tuple(sorted(str(word.arg) for word in call.keywords))) if call else None
        found.append(Use(name, arguments, f"{where}:{node.lineno}"))
    return found


def _aliases(tree: ast.AST) -> Iterator[Tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.split(".")[0] == "torch":
                    yield (one.asname, one.name) if one.asname else ("torch", "torch")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


def _dotted(node: ast.expr, aliases: Dict[str, str]) -> Optional[str]:
    if isinstance(node, ast.Name):
        return aliases.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, aliases)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


def _gpu(torch: Any) -> Any:
    return torch.device("cuda", 0)


def _timed(torch: Any) -> Any:
    return torch.cuda.Event(enable_timing=True)


# name -> what uses it as the project does.
TRIALS: Dict[str, Callable[[Any], Any]] = {
    "torch.amp.GradScaler": lambda torch: torch.amp.GradScaler("cuda"),
    "torch.autocast": lambda torch: torch.autocast("cuda", dtype=torch.bfloat16),
    "torch.backends.cuda.matmul.allow_tf32": lambda torch: torch.backends.cuda.matmul.allow_tf32,
    "torch.backends.cudnn.allow_tf32": lambda torch: torch.backends.cudnn.allow_tf32,
    "torch.backends.cudnn.benchmark": lambda torch: torch.backends.cudnn.benchmark,
    "torch.backends.cudnn.version": lambda torch: torch.backends.cudnn.version(),
    "torch.cuda.Event": lambda torch: _timed(torch).record(),
    "torch.cuda.OutOfMemoryError": lambda torch: issubclass(torch.cuda.OutOfMemoryError, RuntimeError),
    "torch.cuda.get_device_capability": lambda torch: torch.cuda.get_device_capability(_gpu(torch)),
    "torch.cuda.get_device_name": lambda torch: torch.cuda.get_device_name(_gpu(torch)),
    "torch.cuda.get_rng_state": lambda torch: torch.cuda.get_rng_state(_gpu(torch)),
    "torch.cuda.init": lambda torch: torch.cuda.init(),
    "torch.cuda.is_available": lambda torch: torch.cuda.is_available(),
    "torch.cuda.make_graphed_callables": lambda torch: torch.cuda.make_graphed_callables(
        torch.nn.Linear(2, 2), (torch.zeros(1, 2),)
    ),
    # A build without CUDA has the function, and not what it calls.
    "torch.cuda.reset_peak_memory_stats": lambda torch: (
        torch.cuda.reset_peak_memory_stats(_gpu(torch))
        if torch.version.cuda
        else inspect.signature(torch.cuda.reset_peak_memory_stats).bind(_gpu(torch))
    ),
    "torch.cuda.max_memory_allocated": lambda torch: torch.cuda.max_memory_allocated(_gpu(torch)),
    "torch.cuda.max_memory_reserved": lambda torch: torch.cuda.max_memory_reserved(_gpu(torch)),
    "torch.cuda.mem_get_info": lambda torch: torch.cuda.mem_get_info(_gpu(torch)),
    "torch.cuda.set_device": lambda torch: torch.cuda.set_device(_gpu(torch)),
    "torch.cuda.set_rng_state": lambda torch: torch.cuda.set_rng_state(
        torch.cuda.get_rng_state(_gpu(torch)), _gpu(torch)
    ),
    "torch.cuda.synchronize": lambda torch: torch.cuda.synchronize(_gpu(torch)),
    "torch.profiler.ProfilerActivity.CUDA": lambda torch: torch.profiler.ProfilerActivity.CUDA,
    "torch.version.cuda": lambda torch: torch.version.cuda,
    ".elapsed_time": lambda torch: _timed(torch).elapsed_time(_timed(torch)),
    ".pin_memory": lambda torch: torch.zeros(1).pin_memory(),
}


def untried(found: Sequence[Use]) -> Set[str]:
    """Return the names that nobody has said how to try."""
    return {use.name for use in found} - set(TRIALS)


def tried(torch: Any, found: Sequence[Use]) -> List[str]:
    """Use every name once; return what is wrong with each, in words."""
    wrong = []
    for name in sorted({use.name for use in found} & set(TRIALS)):
        try:
            TRIALS[name](torch)
        except (RuntimeError, AssertionError, ValueError) as error:
            if not THERE_IS_NONE.search(str(error)):
                wrong.append(f"{name}: {type(error).__name__}: {error}")
        except Exception as error:  # AttributeError above all
            if torch.version.cuda or str(error) != LACKS:
                wrong.append(f"{name}: {type(error).__name__}: {error}")
    wrong += [f"{told}: add what uses it to TRIALS in tests/gpu/names.py" for told in sorted(untried(found))]
    return wrong + [told for use in found for told in _misfit(torch, use)]


def _misfit(torch: Any, use: Use) -> Iterator[str]:
    """Yield what is wrong with the arguments of a call; builtins tell no signature."""
    if use.arguments is None or use.name.startswith("."):
        return
    target: Any = torch
    for part in use.name.split(".")[1:]:
        target = getattr(target, part, None)
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * use.arguments[0], **dict.fromkeys(use.arguments[1]))
    except TypeError as error:
        yield f"{use.where}: {use.name}{signature}: {error}"


def main(arguments: Sequence[str]) -> int:
    """Try every name here; return the exit status. ``--cuda``: it has to be a build with CUDA."""
    import torch

    if "--cuda" in arguments and not torch.version.cuda:
        print(f"torch {torch.__version__} is no build with CUDA", file=sys.stderr)
        return 1
    warnings.simplefilter("ignore")  # that amp does nothing without a GPU
    found = uses()
    wrong = tried(torch, found)
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, GPU {torch.cuda.is_available()}")
    print(f"{len({use.name for use in found})} names in {len(found)} places, {len(wrong)} wrong")
    for told in wrong:
        print(told, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
