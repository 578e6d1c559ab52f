"""What ``make gpu-check`` leaves behind: a few files that can be carried away, and a table for the documentation.

Owns FOLDER/fixtures: at most 8 files of at most 16 MiB, all logs in one of them. Needs the standard library only.
"""

import gzip
import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

ROOT = Path(__file__).resolve().parents[2]
PRECISIONS = ("fp32", "tf32", "amp-bf16")
FAST = ("resnet_50", "bert_base", "gpt_2")


def slices() -> List[str]:
    """Return the names of the slices in the order in which they run; ``tests.gpu.check`` has their code."""
    trained = [f"training-{model}" for model in models()]
    return [
        "products",
        *trained,
        "kernels",
        "traces",
        "telemetry",
        "restarts",
        "bare",
        "warmth",
        *(f"resnet-{one}" for one in PRECISIONS),
        *(f"fast-{model}" for model in FAST),
    ]


def models() -> List[str]:
    """Return the folders of the models that train in PyTorch; read so that no parser of TOML is needed."""
    found = []
    for path in sorted((ROOT / "suites" / "models").glob("*/model.toml")):
        lines = path.read_text(encoding="utf-8").splitlines()
        frameworks = next((line for line in lines if line.startswith("frameworks")), "")
        if '"pytorch"' in frameworks and not any(line.startswith("measures") for line in lines):
            found.append(path.parent.name)
    return found


FOLDER = "fixtures"
MOST_FILES, MOST_BYTES = 8, 16 * 2**20
MOST_TOLD = 300  # letters of a verdict in the table: of an error the last ones say what it is
# What the slices leave, in the order of their worth; a pattern is one file in the end, packed where it is a text.
RAW = ("kineto-*.json", "ncu-product.csv", "nvml.json")
WORDS = {True: "ok", False: "NOT OK", None: "not judged"}


def write_ended(out: Path, name: str, seconds: float) -> None:
    """Leave the verdict of a slice that was ended, as a slice leaves its own."""
    told = {"name": name, "ok": False, "told": f"the slice was ended after {seconds:.0f} s"}
    (out / f"verdicts-{name}.json").write_text(json.dumps({"device": {}, "versions": {}, "verdicts": [told]}))


def gather(out: Path) -> List[str]:
    """Make the folder of fixtures from what the slices left; return what was left out, in words."""
    folder = out / FOLDER
    shutil.rmtree(str(folder), ignore_errors=True)
    folder.mkdir()
    found = {
        path.stem[len("verdicts-") :]: json.loads(path.read_text()) for path in sorted(out.glob("verdicts-*.json"))
    }
    (folder / "verdicts.json").write_text(json.dumps(found, indent=1))
    (folder / "table.md").write_text(table(found))
    left = _pack_logs(sorted(out.glob("*.jsonl")), folder / "logs.tar")
    for pattern in RAW:
        for path in sorted(out.glob(pattern)):
            packed = gzip.compress(path.read_bytes(), mtime=0)
            if len(packed) > MOST_BYTES:
                left.append(f"{path.name} is left out: {len(packed):,} bytes when packed")
            elif len(list(folder.iterdir())) == MOST_FILES:
                left.append(f"{path.name} is left out: there are {MOST_FILES} files")
            else:
                (folder / (path.name + ".gz")).write_bytes(packed)
    return left


def _pack_logs(logs: Sequence[Path], target: Path) -> List[str]:
    """Pack the logs into one file, the shortest first, until it is full; return what was left out."""
    left, size = [], 0
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(logs, key=lambda one: one.stat().st_size):
            own = gzip.compress(path.read_bytes(), mtime=0)
            # A header and what fills the last block; what ends the archive.
            if size + len(own) + 1024 + 10240 > MOST_BYTES:
                left.append(f"{path.name} is left out: the logs would be over {MOST_BYTES:,} bytes")
                continue
            size += len(own) + 1024
            told = tarfile.TarInfo(path.name + ".gz")
            told.size = len(own)
            archive.addfile(told, io.BytesIO(own))
    target.write_bytes(packed.getvalue())
    return left


def table(found: Dict[str, Any]) -> str:
    """Return what to paste into the documentation: Markdown."""
    device, versions = _of_all(found)
    about = ", ".join(f"{name} {value}" for name, value in versions.items())
    lines = [f"{device.get('name', 'no device')}; {about or 'versions not known'}.", ""]
    lines += ["| slice | check | verdict | figures |", "|---|---|---|---|"]
    for name in sorted(found, key=lambda one: (*slices(), one).index(one)):
        for verdict in found[name]["verdicts"]:
            told = str(verdict["told"]).replace("\n", " ")
            told = (told if len(told) <= MOST_TOLD else "… " + told[-MOST_TOLD:]).replace("|", "\\|")
            lines.append(f"| {name} | {verdict['name']} | {WORDS[verdict['ok']]} | {told} |")
    return "\n".join(lines) + "\n"


def _of_all(found: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Return the device and the versions of the first slice that tells them."""
    for one in found.values():
        if one["device"]:
            return one["device"], one["versions"]
    return {}, {}
