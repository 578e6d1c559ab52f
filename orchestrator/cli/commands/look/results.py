"""Print the table of results: of an experiment, or across all of them."""

import argparse

from orchestrator.cli.exits import CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import path_of
from orchestrator.cli.rest.locate import look


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT", nargs="?", help="without it: across all experiments")
    parser.add_argument("--model")
    parser.add_argument("--framework")
    parser.add_argument("--gpu", metavar="MODEL", help="only runs on GPUs of this model (part of the name is enough)")
    parser.add_argument("--label", metavar="KEY=VALUE")
    parser.add_argument("--limit", type=int, default=100, help="most rows across experiments (default 100)")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    client = look()
    filters = {"model": options.model, "framework": options.framework, "gpu_model": options.gpu, "label": options.label}
    if options.experiment and any(filters.values()):
        raise CommandError("filters are for results across experiments: leave out the experiment")
    if options.experiment:
        experiment_id = naming.experiment(client, options.experiment)
        if options.json:
            output.print_json(client.pages(path_of("experiments", experiment_id, "results")))
        else:
            from orchestrator.cli.rest.waiting import print_results_of

            print_results_of(client, experiment_id)
        return 0
    page = client.pages("/results", options.limit, **filters)
    if options.json:
        output.print_json(page)
    else:
        from orchestrator.cli.printing.tables import print_results

        print_results(page["items"])
    return 0
