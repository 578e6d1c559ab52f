"""What this installation knows without a server: its catalogue, and what no server would accept.

Imported only where there is no server: the types of the domain take a second to import.
"""

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.cli.exits import CommandError
from orchestrator.cli.rest.client import ServerProblem
from orchestrator.cluster.node_names import own_name
from orchestrator.domain.asked.catalog import Catalog
from orchestrator.domain.asked.datasets import extended, on_nodes
from orchestrator.domain.asked.placement import Node
from orchestrator.domain.asked.spec import parse_spec
from orchestrator.domain.expansion.sweep import check_for_any_machine
from orchestrator.domain.words.errors import InvalidRequest, SettingsError
from orchestrator.serve.settings import read_settings
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.probe import request
from orchestrator.services.probe.calibrate import CalibrationRequest
from orchestrator.services.probe.netbench import NetbenchRequest
from workers.node import datasets as on_this_host


def catalog() -> Catalog:
    """The facts that a server started here would have.

    Raises:
        CommandError: a setting or a facts file cannot be used.
    """
    try:
        return load_catalog(read_settings().suite_path)
    except SettingsError as error:
        raise CommandError(str(error)) from None


def this_node() -> Node:
    """This machine as far as datasets go."""
    told = {"datasets": on_this_host.offered(), "prepared_datasets": on_this_host.prepared()}
    return Node(own_name(), (), inventory=told)


def check_spec(spec: Any) -> None:
    """Refuse a spec that no server would accept, whatever machine it is on.

    Raises:
        ServerProblem: as a server would answer it.
    """
    _as_a_server_says(lambda: check_for_any_machine(parse_spec(spec), extended(catalog(), on_nodes([this_node()]))))


def check_netbench(body: Mapping[str, Any]) -> None:
    """As ``check_spec``, of a netbench."""
    _as_a_server_says(lambda: request.check(NetbenchRequest, body, catalog()))


def check_calibration(body: Mapping[str, Any]) -> None:
    """As ``check_spec``, of a calibration."""
    _as_a_server_says(lambda: request.check(CalibrationRequest, body, catalog()))


def _as_a_server_says(check: Callable[[], None]) -> None:
    try:
        check()
    except InvalidRequest as error:
        items = [{"pointer": one.pointer, "detail": one.message} for one in error.problems]
        raise ServerProblem(422, {"detail": str(error), "errors": items}) from None
