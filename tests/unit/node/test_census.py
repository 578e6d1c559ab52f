"""Which command lines are tbd's own, and which only sound like it."""

import pytest

from workers.node import before_exec
from workers.node.telemetry.census import Database, database_of, is_own, serves

OWN = [
    b"/opt/tbd/.venv/bin/python\0-m\0orchestrator.app\0serve\0--port\0000\0",
    b"/opt/tbd/.venv/bin/python\0/opt/tbd/.venv/bin/tbd\0watch\0latest\0",
    b"python3.11\0-m\0workers.node\0serve\0--directory\0/d\0",
    b"python3\0-m\0orchestrator.cluster.ray_watchdog\0--directory=/d\0",
    b"python3\0-u\0-m\0workers.node.mpi.launch\0",
    b"python3\0-I\0-S\0" + before_exec.__file__.encode() + b"\x001234\0\0/bin/true\0",
    b"python\0deploy/demo.py\0",
    b"/site-packages/ray/core/src/ray/raylet/raylet\0--raylet_socket_name=/s\0",
    b"/site-packages/ray/core/src/ray/gcs/gcs_server\0--log_dir=/l\0",
    b"/usr/bin/python3\0-u\0/site-packages/ray/_private/log_monitor.py\0--session-dir=/s\0",
    b"/usr/bin/python3\0-u\0/site-packages/ray/dashboard/agent.py\0--node-ip-address=127.0.0.2\0",
    b"python\0-m\0ray.scripts.scripts\0start\0--head\0",
    b"ray::AgentActor" + b" " * 60,
    b"ray::AgentActor.answer\0\0\0",
    b"ray::IDLE",
    b"ray::DashboardAgent\0",
    b"ray-dashboard-NodeHead-0\0",
]
FOREIGN = [
    b"",
    b"ray::train_resnet\0",
    b"ray::TorchTrainer.fit\0",
    b"ray::AgentActors\0",
    b"vim\0workers.node\0",
    b"tail\0-f\0/tmp/ray/_private/raylet.log\0",
    b"python3\0-c\0import orchestrator.app\0",
    b"python3\0train.py\0--module\0workers.node\0",
    b"python3\0-m\0workers.trainer\0--job\0/j\0",
    b"python3\0-m\0orchestrators.app\0",
    b"/usr/bin/tbd-other\0",
]


@pytest.mark.parametrize("line", OWN)
def test_the_service_its_agents_its_commands_and_rays_programs_are_own(line):
    assert is_own(line)


@pytest.mark.parametrize("line", FOREIGN)
def test_what_only_names_them_and_what_others_compute_in_ray_is_foreign(line):
    assert not is_own(line)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgresql://ada:s%40cret@db.example/benchmarks", Database(b"ada", b"benchmarks")),
        ("postgresql+psycopg:///tbd?host=/run/postgresql", Database(None, b"tbd")),
        ("postgresql://ada@localhost", Database(b"ada", b"ada")),
        ("sqlite:////var/tbd.sqlite3", None),
        ("", None),
    ],
)
def test_the_services_database_is_told_by_its_environment(url, wanted):
    assert database_of({b"TBD_DATABASE_URL": url.encode()}) == wanted


def test_a_process_of_postgresql_is_own_where_it_serves_that_database():
    wanted = [Database(b"ada", b"benchmarks")]
    assert serves(b"postgres: ada benchmarks 127.0.0.1(40112) idle\0", wanted)
    assert serves(b"postgres: 15/main: ada benchmarks [local] SELECT", wanted)
    assert serves(b"postgres: bob benchmarks [local] idle", [Database(None, b"benchmarks")])
    assert not serves(b"postgres: ada shop [local] idle", wanted)
    assert not serves(b"postgres: checkpointer ", wanted)
    assert not serves(b"less\0postgres: ada benchmarks [local]", wanted)
