"""Training scripts of other people, unmodified, under ``tbd exec``: ``make own-scripts``, or some of them by name.

They have an environment of their own beside those of the frameworks, ``~/.cache/tbd/own-scripts``, whose PyTorch is
that of tbd's. Packages come from the registry, scripts from GitHub, each file checked by its digest. Nothing of a
script is changed: what is made here are only the data that it looks for (``PREPARED``).
"""

import gzip
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from workers.node import interpreters

FACTS = Path(__file__).with_suffix(".toml")
PACKAGES = Path(__file__).with_suffix(".txt")
ROOM = Path("~/.cache/tbd/own-scripts").expanduser()
TBD = Path(sys.executable).with_name("tbd")
ADDRESS = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"
TEXT = "data/tinyshakespeare/input.txt"
# The Accelerate script splits its file behind this byte.
LEAST_BYTES = 95_000_000
# Judgements: runs of each, and timed seconds of a run.
RUNS, SECONDS = "2", "20"


def environment(packages: Path = PACKAGES) -> Path:
    """Make the environment with PyTorch and ``packages``, unless it is there; its folder of programs.

    Raises:
        SystemExit: PyTorch's environment is not there.
    """
    torch = interpreters.resolve("pytorch")
    if not torch.ready or torch.python is None:
        raise SystemExit(f"{torch.reason}: tbd frameworks install pytorch")
    wanted = hashlib.sha256(packages.read_bytes() + torch.python.encode()).hexdigest()[:12]
    folder = ROOM / f"environment-{wanted}"
    if (folder / ".ready").exists():
        return folder / "bin"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([torch.python, "-m", "venv", folder], check=True)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own, theirs = (
        subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip()
        for python in (folder / "bin" / "python", torch.python)
    )
    (Path(own) / "pytorch.pth").write_text(theirs + "\n")
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "-r", packages], check=True)
    (folder / ".ready").touch()
    return folder / "bin"


def sources(name: str, facts: Mapping[str, Any]) -> Path:
    """Download the files of a script that are not there; their folder.

    Raises:
        SystemExit: a file is another one than it was.
    """
    folder = ROOM / "sources" / f"{name}-{facts['commit'][:12]}"
    for path, digest in facts["files"].items():
        file = folder / path
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            address = ADDRESS.format(repository=facts["repository"], commit=facts["commit"], path=path)
            with urllib.request.urlopen(address) as answer:
                file.write_bytes(answer.read())
        if hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            raise SystemExit(f"{file} is not what {FACTS.name} names: remove it, and it is downloaded anew")
    return folder


def _nanogpt(folder: Path, text: Path, python: Path) -> None:
    data = folder / "data" / "shakespeare_char"
    shutil.copy(text, data / "input.txt")
    subprocess.run([python, data / "prepare.py"], check=True, stdout=subprocess.DEVNULL)


def _lightning(folder: Path, text: Path, python: Path) -> None:
    (folder / "data").mkdir(exist_ok=True)
    shutil.copy(text, folder / "data" / "wikitext-2.txt")


def _accelerate(folder: Path, text: Path, python: Path) -> None:
    (folder / "data").mkdir(exist_ok=True)
    content = text.read_bytes()
    with gzip.open(folder / "data" / "enwik8.gz", "wb", compresslevel=1) as file:
        for _ in range(LEAST_BYTES // len(content) + 1):
            file.write(content)


# A GPT-2 with a token for each byte, of random weights: the script takes a model that was trained before.
TINY = """
import json, pathlib
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Tokenizer
from transformers.models.gpt2.tokenization_gpt2 import bytes_to_unicode
folder = pathlib.Path("tiny")
folder.mkdir(exist_ok=True)
signs = [*bytes_to_unicode().values(), "<|endoftext|>"]
(folder / "vocab.json").write_text(json.dumps({sign: number for number, sign in enumerate(signs)}))
(folder / "merges.txt").write_text("#version: 0.2\\n")
GPT2Tokenizer(folder / "vocab.json", folder / "merges.txt").save_pretrained(folder)
size = {"n_positions": 512, "n_embd": 128, "n_layer": 2, "n_head": 4}
GPT2LMHeadModel(GPT2Config(vocab_size=len(signs), **size)).save_pretrained(folder)
"""


def _trainer(folder: Path, text: Path, python: Path) -> None:
    tasks = [json.loads(line) for line in (folder / "seed_tasks.jsonl").read_text().splitlines()]
    rows = [{"instruction": one["instruction"], **told} for one in tasks for told in one["instances"]]
    (folder / "seed.json").write_text(json.dumps(rows))
    shutil.rmtree(folder / "out", ignore_errors=True)
    subprocess.run([python, "-c", TINY], check=True, cwd=folder)


PREPARED: Mapping[str, Callable[[Path, Path, Path], None]] = {
    "nanogpt": _nanogpt,
    "lightning": _lightning,
    "trainer": _trainer,
    "accelerate": _accelerate,
}


def main(names: list[str]) -> int:
    """Measure the scripts that are named, or all; 1 where one of them could not be measured."""
    facts = tomllib.loads(FACTS.read_text())
    text = sources("text", facts.pop("text")) / TEXT
    unknown = [name for name in names if name not in facts]
    if unknown:
        raise SystemExit(f"there is no script {unknown[0]}: {', '.join(facts)}")
    programs = environment()
    failed = []
    with tempfile.TemporaryDirectory(prefix="tbd-own-scripts-") as data:
        around = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "TBD_DATA_DIR": data, "HF_HUB_OFFLINE": "1"}
        for name in names or facts:
            folder = sources(name, facts[name])
            if name in PREPARED:
                PREPARED[name](folder, text, programs / "python")
            command = [TBD, "exec", "--repeats", RUNS, "--seconds", SECONDS, "--name", name, "--"]
            print(f"\n== {name}: {facts[name]['command']}", flush=True)
            if _gpus() < facts[name].get("gpus", 0):
                print(f"left out: it wants {facts[name]['gpus']} GPUs, and ends without")
                continue
            place = folder / facts[name].get("folder", ".")
            done = subprocess.run([*command, *shlex.split(facts[name]["command"])], cwd=place, env=around, check=False)
            failed += [name] * (done.returncode != 0)
    print(f"\n{len(failed)} could not be measured{': ' + ', '.join(failed) if failed else ''}")
    return int(bool(failed))


def _gpus() -> int:
    found = shutil.which("nvidia-smi")
    listed = subprocess.run([found, "-L"], capture_output=True, check=False).stdout if found else b""
    return len(listed.splitlines())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
