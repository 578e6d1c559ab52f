"""Show an experiment or a run: state, why, attempts, validity, measurements, fingerprint."""

import argparse

from orchestrator.cli import output
from orchestrator.cli.client import Client, path_of
from orchestrator.cli.locate import connect


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="EXPERIMENT|RUN")
    parser.add_argument("--measurements", action="store_true", help="of a run: only what was measured, and how")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    client = connect()
    if options.id.startswith("run_"):
        show = _show_measurements if options.measurements else _show_run
        show(client, options.id, options.json)
    else:
        _show_experiment(client, options.id, options.json)
    return 0


def _show_run(client: Client, run_id: str, as_json: bool) -> None:
    path = path_of("runs", run_id)
    run = client.get(path)
    if as_json:
        output.print_json(run)
        return
    from orchestrator.cli.tables import print_run

    print_run(run, client.get(f"{path}/measurements")["items"])


def _show_measurements(client: Client, run_id: str, as_json: bool) -> None:
    page = client.get(path_of("runs", run_id, "measurements"))
    if as_json:
        output.print_json(page)
        return
    from orchestrator.cli.tables import print_methods

    print_methods(page["items"])


def _show_experiment(client: Client, experiment_id: str, as_json: bool) -> None:
    path = path_of("experiments", experiment_id)
    experiment = client.get(path)
    if as_json:
        output.print_json(experiment)
        return
    from orchestrator.cli.tables import print_experiment

    rows, runs = client.pages(f"{path}/results")["items"], client.pages(f"{path}/runs")["items"]
    print_experiment(experiment, rows, runs)
