"""Write results to a file for other tools: a line for each cell of each experiment, or for each run.

The columns are listed in docs/use/export.md. For example:
tbd export --format csv --output results.csv --model resnet-50 --since 2026-11-01T00:00:00Z
"""

import argparse
import codecs
import os
import sys
from collections.abc import Callable
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client
from orchestrator.cli.rest.locate import look

FORMATS = ("csv", "jsonl", "parquet", "mllog")
_ENDINGS = {f".{name}": name for name in FORMATS}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT", nargs="?", help="without it: across all experiments")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: stdout")
    parser.add_argument("--format", choices=FORMATS, help="default: by the end of FILE's name, else csv")
    parser.add_argument("--rows", choices=("cells", "runs"), help="a line for each cell (default), or for each run")
    parser.add_argument("--model")
    parser.add_argument("--framework")
    parser.add_argument("--gpu", metavar="MODEL", help="only runs on GPUs of this model (part of the name is enough)")
    parser.add_argument("--label", metavar="KEY=VALUE")
    parser.add_argument("--owner", help="only what is this owner's")
    parser.add_argument("--series", metavar="KEY", help="only cells of this workload_key")
    parser.add_argument(
        "--since", metavar="TIME", help="only experiments submitted from then on (2026-11-22T02:00:00Z)"
    )
    parser.add_argument("--until", metavar="TIME", help="only experiments submitted before")


def execute(options: argparse.Namespace) -> int:
    chosen = options.format or _ENDINGS.get(os.path.splitext(options.output or "")[1].lower(), "csv")
    if chosen == "parquet" and not options.output and sys.stdout.isatty():
        raise CommandError("Parquet is nothing to read on a screen: name a file with --output")
    client = look()
    wanted = {
        "format": chosen,
        "rows": options.rows,
        "experiment": naming.experiment(client, options.experiment) if options.experiment else None,
        "model": options.model,
        "framework": options.framework,
        "gpu_model": options.gpu,
        "label": options.label,
        "owner": options.owner,
        "series": options.series,
        "since": options.since,
        "until": options.until,
    }
    if options.output:
        _to_file(client, wanted, options.output)
    else:
        write = _stdout()
        for chunk in client.download("/export", **wanted):
            write(chunk)
    return 0


def _to_file(client: Client, wanted: dict[str, Any], name: str) -> None:
    """Under the name ``name`` there is the whole file or what was there before. What is no file (a device, a pipe) is
    written to as it is."""
    part = name if os.path.exists(name) and not os.path.isfile(name) else f"{name}.part"
    try:
        with open(part, "wb") as file:
            for chunk in client.download("/export", **wanted):
                file.write(chunk)
        if part != name:
            os.replace(part, name)
    except OSError as error:
        _remove(part)
        raise CommandError(f"{name}: {error.strerror}") from None
    except BaseException:
        _remove(part)
        raise
    output.say(f"export: {name} ({os.path.getsize(name)} bytes)")


def _remove(name: str) -> None:
    if os.path.isfile(name):
        os.remove(name)


def _stdout() -> Callable[[bytes], object]:
    """Writes to stdout: bytes as they come; to a screen as text, so that nothing in it moves the cursor."""
    if not sys.stdout.isatty():
        sys.stdout.flush()
        return sys.stdout.buffer.write
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    return lambda chunk: sys.stdout.write(decoder.decode(chunk))
