"""Show how an experiment scales: speed-up and efficiency against one device, with 95 % intervals, and what is missing.

A sweep over topologies does: tbd submit resnet-50 --topology powers-of-two --batch 4 (weak scaling: the same batch on
each device) or --global-batch 64 (strong: one batch, divided over the devices).
"""

import argparse

from orchestrator.cli.printing import output
from orchestrator.cli.rest import naming
from orchestrator.cli.rest.client import path_of
from orchestrator.cli.rest.locate import look


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT")
    output.add_figure(parser, "a figure of the speed-up over the number of devices")
    parser.add_argument("--json", action="store_true", help="print REST's answer")


def execute(options: argparse.Namespace) -> int:
    output.check_figure(options.figure)
    client = look()
    experiment = naming.experiment(client, options.experiment)
    found = client.get(path_of("experiments", experiment, "scaling"))
    if options.json:
        output.print_json(found)
    else:
        from orchestrator.cli.printing.tables import print_table
        from orchestrator.reports.tables.scaling import scaling_table

        print_table(scaling_table(found))
    if options.figure:
        from orchestrator.reports.figures import scaling

        title = client.get(path_of("experiments", experiment))["name"]
        output.write_figure(options.figure, lambda: scaling.figure(found, title))
    return 0
