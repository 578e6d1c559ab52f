"""Show an experiment or a run: state, why, attempts, validity, measurements, profiles, fingerprint."""

import argparse
import json

from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import look

PROFILES = {"memory": "where its memory went", "kernels": "its kernel table", "layers": "its layers and their times"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="EXPERIMENT|RUN")
    parser.add_argument("--measurements", action="store_true", help="of a run: only what was measured, and how")
    for name, what in PROFILES.items():
        parser.add_argument(f"--{name}", action="store_true", help=f"of a run that was profiled: only {what}, in full")
    parser.add_argument("--rank", type=int, help="of this rank, with --kernels or --layers")
    parser.add_argument("--trace", metavar="FILE", help="of a run: write its timeline, for https://ui.perfetto.dev")
    output.add_figure(parser, "of what trained to convergence, quality over time")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    output.check_figure(options.figure)
    client = look()
    options.id = naming.thing(client, options.id)
    asked = [name for name in PROFILES if getattr(options, name)]
    if options.figure:
        _write_figure(client, options.id, options.figure)
    elif options.id.startswith("run_"):
        if options.trace:
            _write_trace(client, options.id, options.trace)
        elif asked:
            for name in asked:
                _show_profile(client, options.id, name, options.rank, options.json)
        else:
            show = _show_measurements if options.measurements else _show_run
            show(client, options.id, options.json)
    else:
        _show_experiment(client, options.id, options.json)
    return 0


def _write_figure(client: Client, thing: str, path: str) -> None:
    from orchestrator.reports.figures import convergence

    of_run = thing.startswith("run_")
    ids = [thing] if of_run else [run["id"] for run in client.pages(path_of("experiments", thing, "runs"))["items"]]
    output.write_figure(path, lambda: convergence.figure([client.get(path_of("runs", one)) for one in ids]))


def _write_trace(client: Client, run_id: str, path: str) -> None:
    found = client.get(path_of("runs", run_id, "trace"))
    # As UTF-8, not escaped: Perfetto refuses the pairs of escapes that stand for characters beyond 16 bits.
    output.write_file(path, json.dumps(found, separators=(",", ":"), ensure_ascii=False))
    reason = found["otherData"].get("reason")
    if thinned := found["otherData"].get("thinned"):
        output.say(f"no telemetry is among it: {thinned}")
    output.say(reason or f"{len(found['traceEvents'])} events in {path}: open it in Perfetto or chrome://tracing")


def _show_profile(client: Client, run_id: str, name: str, rank: int | None, as_json: bool) -> None:
    of_rank = {"rank": rank} if rank is not None and name != "memory" else {}
    path = path_of("runs", run_id, name)
    if as_json:
        output.print_json(client.get(path, **of_rank))
        return
    from orchestrator.cli.printing.profile_tables import print_profile

    answer = client.get(path, **of_rank)
    answer["items"] = client.pages(path, **of_rank)["items"] if name != "memory" else []
    print_profile(name, answer, most=None)


def _show_run(client: Client, run_id: str, as_json: bool) -> None:
    path = path_of("runs", run_id)
    run = client.get(path)
    if as_json:
        output.print_json(run)
        return
    from orchestrator.cli.printing.tables import print_run

    print_run(run, client.get(f"{path}/measurements")["items"])
    if run["plan"]["profile"] and run["ended_at"]:
        from orchestrator.cli.printing.profile_tables import MOST_ROWS, print_profile

        for name in run["plan"]["profile"]:
            print()
            print_profile(name, client.get(path_of("runs", run_id, name)), most=MOST_ROWS)


def _show_measurements(client: Client, run_id: str, as_json: bool) -> None:
    page = client.get(path_of("runs", run_id, "measurements"))
    if as_json:
        output.print_json(page)
        return
    from orchestrator.cli.printing.tables import print_methods

    print_methods(page["items"])


def _show_experiment(client: Client, experiment_id: str, as_json: bool) -> None:
    path = path_of("experiments", experiment_id)
    experiment = client.get(path)
    if as_json:
        output.print_json(experiment)
        return
    from orchestrator.cli.printing.tables import print_experiment

    rows, runs = client.pages(f"{path}/results")["items"], client.pages(f"{path}/runs")["items"]
    print_experiment(experiment, rows, runs)
