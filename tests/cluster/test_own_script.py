"""``tbd exec`` of one training on two hosts: one experiment of both, and what is told where a host goes."""

import json
import os
import subprocess
import sys

import pytest

from tests.cluster.bench import ROOT
from tests.cluster.network import Network
from tests.support.service import until
from workers.node import interpreters

pytestmark = [pytest.mark.after_change, pytest.mark.framework("pytorch")]

# Over gloo, with a pause; the whole ends by itself only after minutes.
SCRIPT = """
import time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
sgd = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(10000, 8))
for (batch,) in torch.utils.data.DataLoader(data, batch_size=5):
    model(batch).square().mean().backward()
    time.sleep(0.02)
    sgd.step()
"""


class Both:
    """``tbd exec`` on both hosts of a network, led by host one."""

    def __init__(self, network: Network, *asked: str) -> None:
        self._network = network
        leads = network.hosts["one"]
        place = f"{leads.address()}:{29400 + os.getpid() % 500}"
        self._asked = [sys.executable, "-m", "orchestrator.cli.main", "exec", "--nodes", "2", "--meet", place, *asked]
        python = str(interpreters.resolve("pytorch").python)
        self._words = [python, "-m", "torch.distributed.run", "--nnodes=2", f"--master-addr={leads.address()}"]
        self.logs = {name: host.outside / f"exec-{os.urandom(4).hex()}.txt" for name, host in network.hosts.items()}
        self.started = {name: self._start(number, name) for number, name in enumerate(self.logs)}

    def _start(self, number: int, name: str) -> "subprocess.Popen[str]":
        host = self._network.hosts[name]
        (host.outside / "train.py").write_text(SCRIPT)
        own = {"TBD_EXEC_SECRET": "gandalf" * 3, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "eth0"}
        own |= {"TBD_DATA_DIR": str(host.here / "data"), "TBD_LOCK_DIR": str(host.here / "locks")}
        words = [*self._asked, "--", *self._words, "--master-port=29999", f"--node-rank={number}", "train.py"]
        at_home = ["sh", "-c", f'cd {host.here} && exec "$@" > exec.json', "sh"]
        return host.start(*at_home, *words, environment={**os.environ, **own}, log=self.logs[name])

    def said(self, name: str) -> str:
        return self.logs[name].read_text()

    def wait(self, name: str) -> int:
        return self.started[name].wait(120)


@pytest.mark.timeout(300)
def test_a_training_over_two_hosts_is_one_run_of_both(network: Network) -> None:
    both = Both(
        network, "--repeats", "1", "--steps", "20", "--logs", str(network.hosts["one"].here.parent / "logs"), "--json"
    )
    assert [both.wait(name) for name in both.logs] == [0, 0], [both.said(name) for name in both.logs]
    host = network.hosts["one"]
    (row,) = json.loads((host.outside / "exec.json").read_text())["items"]
    assert (row["axes"]["topology"], row["axes"]["framework"], row["n_runs"]) == ("2x1", "pytorch", 1)
    assert 0 < row["throughput"]["value"] < 2 * 5 / 0.02
    assert "where one keeps results" in both.said("two")
    log = (host.here.parent / "logs" / "0001.jsonl").read_text()
    stopped = [json.loads(line) for line in log.splitlines() if '"kind":"stopped"' in line]
    assert [one["rank"] for one in stopped] == [0, 1]
    assert stopped[0]["data"]["step"] == stopped[1]["data"]["step"] > 20
    assert "gandalf" not in log


@pytest.mark.timeout(300)
def test_a_host_that_loses_its_power_ends_the_run_on_the_other(network: Network) -> None:
    both = Both(network, "--repeats", "2", "--seconds", "600")
    until(lambda: "timed, step" in both.said("one"), timeout_s=120)
    network.hosts["two"].cut_power()
    assert both.wait("one") == 1
    assert "node_lost: node two has gone" in both.said("one"), both.said("one")
    network.boot("two")
