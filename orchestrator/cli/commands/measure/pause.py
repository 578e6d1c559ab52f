"""Let no further run of an experiment begin; those that have begun come to their end. Safe to repeat."""

import argparse

from orchestrator.cli.rest import orders


def configure(parser: argparse.ArgumentParser) -> None:
    orders.configure(parser)


def execute(options: argparse.Namespace) -> int:
    done = f"is paused; what has begun comes to its end. To let it go on: tbd resume {options.id}"
    return orders.carry_out(options, "pause", done)
