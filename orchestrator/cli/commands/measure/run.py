"""Run an experiment and print its table: on the server that there is, else on an embedded one.

tbd run suites/quick.yaml
tbd run resnet-50 -f pytorch -f tensorflow --batch 4,8 --repeats 3 --size small
"""

import argparse

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.embedded import some_server, wait_for_its_end
from orchestrator.cli.rest.waiting import code_of, print_results_of
from orchestrator.cli.spec import spec_options


def configure(parser: argparse.ArgumentParser) -> None:
    spec_options.configure(parser)
    parser.add_argument("--report", metavar="FILE", help="also write a report (Markdown)")
    parser.add_argument("--json", action="store_true", help="print the results as REST answers them")


def execute(options: argparse.Namespace) -> int:
    source = spec_options.Source(options)
    with some_server(source.check_here) as (client, is_embedded):
        if is_embedded:
            _refuse_what_would_wait_for_ever(client, source)
        experiment = source.post(client)
        ended = wait_for_its_end(client, experiment, is_embedded)
        _print(client, experiment["id"], options)
        return code_of(ended)


def _refuse_what_would_wait_for_ever(client: Client, source: spec_options.Source) -> None:
    """To an embedded server no node ever comes: what this machine cannot place would never run.

    Raises:
        CommandError: it names the first such run and what it needs.
    """
    if any(node["state"] != "available" for node in client.get("/nodes")["items"]):
        return  # not all is known of the machine yet
    for one in source.post(client, dry_run="true")["plans"]:
        if one["nodes"] is None:
            raise CommandError(f"this machine cannot run {one['plan']['topology']}: {one['waiting']}")


def _print(client: Client, experiment_id: str, options: argparse.Namespace) -> None:
    if options.json:
        output.print_json(client.pages(path_of("experiments", experiment_id, "results")))
    else:
        print_results_of(client, experiment_id)
    if options.report:
        from orchestrator.cli.commands.analyse.report import write_report

        write_report(client, [experiment_id], options.report)
