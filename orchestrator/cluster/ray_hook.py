"""What ``ray start`` offers no option for: an embedded Ray without the parts that tbd does not use.

Named in ``RAY_START_HOOK``, called by ``ray start`` before it starts anything. The autoscaler's monitor, Ray's client
server and the dashboard's server take 290 MB and on two cores half of the start-up time (measured with Ray 2.60).
This is the one place that leans on Ray's insides; ``pyproject.toml`` holds Ray to one minor version.
"""

from typing import Any

# Loopback, the port of RFC 863, where nobody listens.
DISCARD = "127.0.0.2:9"


def trim(parameters: Any, head: bool) -> None:
    """Change ``parameters`` (``ray._private.parameter.RayParams``) of the head that is about to start."""
    from ray._private import ray_constants
    from ray._private.node import Node

    def start_no_api_server(self: Any, **_: Any) -> None:
        self._webui_url = ""
        # The nodes' dashboard agents ask for its address every second, with a traceback in their log, until they have
        # one; they use it for events that nobody here reads.
        key, space = ray_constants.DASHBOARD_ADDRESS.encode(), ray_constants.KV_NAMESPACE_DASHBOARD
        self.get_gcs_client().internal_kv_put(key, DISCARD.encode(), True, namespace=space)

    parameters.no_monitor = True
    parameters.ray_client_server_port = None
    Node.start_api_server = start_no_api_server  # type: ignore[method-assign]
