"""Ask for an experiment or a run to end. Safe to repeat."""

import argparse

from orchestrator.cli.rest import orders


def configure(parser: argparse.ArgumentParser) -> None:
    orders.configure(parser, "EXPERIMENT|RUN")


def execute(options: argparse.Namespace) -> int:
    return orders.carry_out(options, "cancel", "is being cancelled")
