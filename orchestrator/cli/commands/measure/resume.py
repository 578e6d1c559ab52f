"""Let a paused experiment go on. Safe to repeat."""

import argparse

from orchestrator.cli.rest import orders


def configure(parser: argparse.ArgumentParser) -> None:
    orders.configure(parser)


def execute(options: argparse.Namespace) -> int:
    return orders.carry_out(options, "resume", "goes on")
