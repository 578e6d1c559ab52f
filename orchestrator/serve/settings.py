"""The settings: ``TBD_*`` variables of the environment, read once. The one place that knows their names."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

from orchestrator.domain.around.server import LEASE_S
from orchestrator.domain.words.errors import SettingsError
from orchestrator.serve.secret_files import NOT_EVERYBODY, read_secret

Number = TypeVar("Number", int, float)
# A name or an IPv4 address, or an IPv6 address with or without its brackets.
_HOST_NAME = re.compile(r"[a-z0-9._-]+|\[?[0-9a-f:.]*:[0-9a-f:.]*:[0-9a-f:.]*\]?")

EVERY_ADDRESS = ("0.0.0.0", "::")

# variable -> (field, default, what it is)
VARIABLES: dict[str, tuple[str, str, str]] = {
    "TBD_DATA_DIR": (
        "data_dir",
        "~/.local/share/tbd",
        "folder of the database, the logs on their way and the embedded cluster",
    ),
    "TBD_DATABASE_URL": (
        "database_url",
        "",
        "SQLAlchemy URL; empty: SQLite in the data directory; PostgreSQL: postgresql://…",
    ),
    "TBD_DATABASE_PASSWORD_FILE": (
        "database_password_file",
        "",
        "file with the password for TBD_DATABASE_URL; nobody but its owner and group may read it",
    ),
    "TBD_DATABASE_WAIT_S": (
        "database_wait_s",
        "60",
        "seconds that the start of the service waits for a PostgreSQL that does not answer yet",
    ),
    "TBD_HOST": ("host", "127.0.0.1", "address to listen on"),
    "TBD_PORT": ("port", "8585", "port to listen on; 0: a free one"),
    "TBD_ALLOWED_HOSTS": (
        "allowed_hosts",
        "",
        "names by which clients may address the server, beside those of loopback, with commas; a proxy passes them on",
    ),
    "TBD_FIRST_TOKEN": (
        "first_token",
        "before",
        "beyond loopback an admin's token is needed before the service starts; later: it starts all the same, and "
        "until there is one it answers nothing but its health",
    ),
    "TBD_PROXIES": (
        "proxies",
        "127.0.0.1,::1",
        "addresses or networks of proxies that are believed who asks (X-Forwarded-For), with commas; *: any",
    ),
    "TBD_TLS_CERT": (
        "tls_cert",
        "",
        "file with the certificate (PEM, with its chain) to serve https by; needs TBD_TLS_KEY",
    ),
    "TBD_TLS_KEY": ("tls_key", "", "file with its private key, which nobody but its owner and group may read"),
    "TBD_RATE_LIMIT": (
        "rate_limit",
        "",
        "most requests a second of one token, or of one address without; 0: any; empty: 50 where tokens are needed",
    ),
    "TBD_CLUSTER": ("cluster", "ray", "ray, or local: agents as child processes of this host, without Ray"),
    "TBD_RAY_ADDRESS": ("ray_address", "", "address of a Ray cluster; empty: an embedded one"),
    "TBD_RAY_WAIT_S": (
        "ray_wait_s",
        "60",
        "seconds without the Ray of TBD_RAY_ADDRESS after which the service ends (exit code 4), to be started anew",
    ),
    "TBD_FENCE_S": ("fence_s", "60", "seconds of silence after which an agent ends its processes by itself"),
    "TBD_DEADLINE_S": (
        "deadline_s",
        "",
        "seconds until everything of an experiment has to be over, where its spec does not say; empty: no deadline",
    ),
    "TBD_LOCAL_NODES": ("local_nodes", "1", "with TBD_CLUSTER=local: into how many nodes this host is divided"),
    "TBD_IDLE_EXIT_S": ("idle_exit_s", "900", "seconds without a server after which an embedded cluster ends itself"),
    "TBD_KEEP_READINGS_DAYS": (
        "keep_readings_days",
        "",
        "days after the end of a run for which its readings are kept; results, intervals and experiments with the "
        "label pinned stay; empty: all are kept for ever",
    ),
    "TBD_MAX_BODY_BYTES": ("max_body_bytes", "1048576", "largest request body"),
    "TBD_MAX_LOG_BYTES": ("max_log_bytes", "67108864", "largest log that is imported (tbd ingest)"),
    "TBD_GATE_BUDGET_RATIO": (
        "gate_budget_ratio",
        "0.1",
        "device time in which the service tries side by side what looks slower in nightlies, as a share of that of the "
        "nights; 0: it tries nothing",
    ),
    "TBD_SUITE_PATH": ("suite_path", "", "folders with further models, separated by :"),
}

# Read by the node agent on its own host (``workers.node``), listed here for ``tbd serve --help``.
NODE_VARIABLES: dict[str, tuple[str, str]] = {
    "TBD_NODE_NAME": (
        "its host name",
        "what the node is called, where the host name is another one with each start, as in a pod",
    ),
    "TBD_CPU_DEVICES": ("1", "number of CPU devices of a node; its cores, but those kept for tbd, are divided evenly"),
    "TBD_HOUSEKEEPING_CORES": (
        "1 of four or more",
        "number of cores kept for tbd itself, so that CPU devices and GPU processes leave them alone; 0: none",
    ),
    "TBD_GPUS": (
        "all that CUDA_VISIBLE_DEVICES shows",
        "GPUs of a node: indices of nvidia-smi or UUIDs, with commas; idle: only those that nobody uses. "
        "One that others compute on is never given out",
    ),
    "TBD_FABRICS": (
        "",
        "interfaces of a node by fabric, where it does not show: ethernet=eth0,infiniband=ib0@mlx5_0+mlx5_3,roce=eth1",
    ),
    "TBD_NCCL_NET": (
        "",
        "network of NCCL that a plugin has, such as EFA's or Slingshot's, by the plugin's name for it",
    ),
    "TBD_INTERPRETERS_DIR": ("~/.cache/tbd/interpreters", "folder of the frameworks' environments"),
    "TBD_INTERPRETER_VARIANT": (
        "cuda where there is an NVIDIA driver",
        "which variant of the frameworks' environments is built and used: cpu, cuda or cuda12",
    ),
    "TBD_INTERPRETER_PATH": ("", "folders with definitions of environments of your own, separated by :"),
    "TBD_PYTORCH_CPU_INDEX": (
        "https://download.pytorch.org/whl/cpu",
        "index that is asked first for PyTorch's build for CPUs; none: only those that pip is configured with",
    ),
    "TBD_ALLOW_CUDA_BUILD": (
        "",
        "1: on a host without a GPU take PyTorch's build with CUDA (4.8 GB) where that for CPUs cannot be had",
    ),
    "TBD_INTERPRETER_PYTHON": (
        "the first that the host has of 3.11, 3.12, 3.13",
        "the Python for which the frameworks' environments are built and used, where they can be had for several",
    ),
    "TBD_LOCK_DIR": (
        "tbd-locks-<uid> in the folder for temporary files",
        "locks of the devices, shared by all services of a node",
    ),
    "TBD_CHECKPOINTS": (
        "beside the attempts of the node",
        "folder that all nodes share, for the checkpoints of runs to convergence",
    ),
    "TBD_DATASETS_DIR": ("~/.cache/tbd/datasets", "folder of the prepared datasets"),
    "TBD_REGISTERED_DATASETS_DIR": (
        "~/.config/tbd/datasets",
        "folder of what is noted of the datasets that were registered on a node",
    ),
}

# Read by the command line.
CLIENT_VARIABLES: dict[str, tuple[str, str]] = {
    "TBD_SERVER": ("", "URL of the server that commands talk to; empty: the one that owns the data directory"),
    "TBD_TOKEN": ("", "token that commands present"),
    "TBD_TOKEN_FILE": ("~/.config/tbd/token", "file with that token, which nobody but its owner may read"),
    "TBD_CA_FILE": ("", "file with certificates (PEM) by which the server's is believed, beside those of the system"),
    "TBD_INSECURE": ("", "1: present the token also over http to other machines, where the network is private"),
    "TBD_EXEC_SECRET": ("", "for tbd exec --nodes: by which its nodes know each other, the same on all of them"),
    "NO_COLOR": ("", "set: no colours"),
}


@dataclass(frozen=True)
class Settings:
    """All settings of the control plane. Durations in seconds, sizes in bytes."""

    data_dir: Path
    database_url: str = field(repr=False)  # with the password
    database_password_file: str
    database_wait_s: float
    host: str
    port: int
    allowed_hosts: tuple[str, ...]
    first_token: str
    proxies: str
    tls_cert: Path | None
    tls_key: Path | None
    rate_limit: float | None
    cluster: str
    ray_address: str
    ray_wait_s: float
    fence_s: float
    deadline_s: float | None
    keep_readings_days: float | None
    local_nodes: int
    idle_exit_s: float
    max_body_bytes: int
    max_log_bytes: int
    gate_budget_ratio: float
    suite_path: tuple[Path, ...]

    @property
    def own_names(self) -> tuple[str, ...]:
        """By which names and addresses clients may speak of the server, beside those of loopback."""
        return self.allowed_hosts if self.host in EVERY_ADDRESS else (*self.allowed_hosts, self.host.lower())

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_loopback(self.host)


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings.

    Raises:
        SettingsError: a value cannot be used; the message names the variable.
    """
    texts = {field: environment.get(name) or default for name, (field, default, _) in VARIABLES.items()}
    data_dir = Path(texts["data_dir"]).expanduser().absolute()
    settings = Settings(
        data_dir=data_dir,
        database_url=_with_password(texts["database_url"], texts["database_password_file"])
        or f"sqlite:///{data_dir / 'tbd.sqlite3'}",
        database_password_file=texts["database_password_file"],
        database_wait_s=_number("TBD_DATABASE_WAIT_S", texts["database_wait_s"], float, 0, 86400),
        host=texts["host"],
        port=_number("TBD_PORT", texts["port"], int, 0, 65535),
        allowed_hosts=_host_names("TBD_ALLOWED_HOSTS", texts["allowed_hosts"]),
        first_token=_one_of("TBD_FIRST_TOKEN", texts["first_token"], ("before", "later")),
        proxies=_networks("TBD_PROXIES", texts["proxies"]),
        tls_cert=_file(texts["tls_cert"]),
        tls_key=_file(texts["tls_key"]),
        rate_limit=_number("TBD_RATE_LIMIT", texts["rate_limit"], float, 0, 1e6) if texts["rate_limit"] else None,
        cluster=_one_of("TBD_CLUSTER", texts["cluster"], ("ray", "local")),
        ray_address=texts["ray_address"],
        ray_wait_s=_number("TBD_RAY_WAIT_S", texts["ray_wait_s"], float, 5, 86400),
        fence_s=_number("TBD_FENCE_S", texts["fence_s"], float, 1, 86400),
        deadline_s=_number("TBD_DEADLINE_S", texts["deadline_s"], float, 1, 1e9) if texts["deadline_s"] else None,
        keep_readings_days=_number("TBD_KEEP_READINGS_DAYS", texts["keep_readings_days"], float, 0, 36500)
        if texts["keep_readings_days"]
        else None,
        local_nodes=_number("TBD_LOCAL_NODES", texts["local_nodes"], int, 1, 64),
        idle_exit_s=_number("TBD_IDLE_EXIT_S", texts["idle_exit_s"], float, 1, 86400),
        max_body_bytes=_number("TBD_MAX_BODY_BYTES", texts["max_body_bytes"], int, 1024, 2**30),
        max_log_bytes=_number("TBD_MAX_LOG_BYTES", texts["max_log_bytes"], int, 1024, 2**30),
        gate_budget_ratio=_number("TBD_GATE_BUDGET_RATIO", texts["gate_budget_ratio"], float, 0, 1000),
        suite_path=tuple(Path(part).expanduser() for part in texts["suite_path"].split(":") if part),
    )
    assert {field.name for field in fields(Settings)} == {field for field, _, _ in VARIABLES.values()}
    if settings.ray_address and not settings.database_url.startswith("sqlite") and settings.fence_s < 2 * LEASE_S:
        raise SettingsError(
            f"TBD_FENCE_S={texts['fence_s']} is too short for servers that succeed each other on PostgreSQL: when one "
            f"was killed, agents hear of nobody for {LEASE_S:g} s and some; give {2 * LEASE_S:g} or more"
        )
    return settings


def _with_password(url: str, file: str) -> str:
    """``url`` with the password that lies in ``file``, where one is named."""
    if not file:
        return url
    password = read_secret(Path(file), "TBD_DATABASE_PASSWORD_FILE", closed_to=NOT_EVERYBODY).strip()
    if not password:
        raise SettingsError(f"TBD_DATABASE_PASSWORD_FILE: {file} is empty")
    who, at, where = urlsplit(url).netloc.rpartition("@")
    if not at or ":" in who:
        raise SettingsError(
            "TBD_DATABASE_PASSWORD_FILE: TBD_DATABASE_URL has to name the user and no password of its own, "
            "as postgresql://tbd@host/tbd does"
        )
    return url.replace(f"{who}@{where}", f"{who}:{quote(password, safe='')}@{where}", 1)


def is_loopback(host: str) -> bool:
    """Whether ``host``, a name or an address, is this machine and nobody else reaches it there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _file(text: str) -> Path | None:
    return Path(text).expanduser().absolute() if text else None


def _networks(name: str, text: str) -> str:
    for one in text.split(",") if text != "*" else ():
        try:
            ip_network(one.strip())
        except ValueError:
            raise SettingsError(f"{name}: {one.strip()!r} is no address and no network such as 10.0.0.0/8") from None
    return text


def _number(name: str, text: str, kind: Callable[[str], Number], low: float, high: float) -> Number:
    try:
        value = kind(text)
    except ValueError:
        raise SettingsError(f"{name}={text!r} is no number") from None
    if not low <= value <= high:
        raise SettingsError(f"{name}={text} is outside {low} to {high}")
    return value


def _host_names(name: str, text: str) -> tuple[str, ...]:
    names = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    for one in names:
        if not _HOST_NAME.fullmatch(one):
            raise SettingsError(f"{name}: {one!r} is no name of a host: write it without http:// and without a port")
    return tuple(one.strip("[]").removesuffix(".") for one in names)


def _one_of(name: str, text: str, offered: tuple[str, ...]) -> str:
    if text not in offered:
        raise SettingsError(f"{name}={text!r}: it is one of {', '.join(offered)}")
    return text
