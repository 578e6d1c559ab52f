"""One real training step in PyTorch: the loss of a linear fit falls. Then two processes add up a tensor over gloo.
Prints what was proved."""

import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

LIMIT_S = 120.0
SUM = 3.0


def train():
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    inputs, targets = torch.randn(64, 8, device=device), torch.randn(64, 1, device=device)
    model = torch.nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if not losses[1] < losses[0]:
        raise SystemExit(f"the loss did not fall: {losses!r}")
    return f"on {device}: loss {losses[0]:.6f} -> {losses[1]:.6f}"


def add_up(rank, meeting):
    """Be one of the two; a file is where they meet, so that no port is needed."""
    dist.init_process_group("gloo", f"file://{meeting}", timedelta(seconds=LIMIT_S), world_size=2, rank=rank)
    values = torch.full((1000,), float(rank + 1))
    dist.all_reduce(values)
    if not bool((values == SUM).all()):
        raise SystemExit(f"rank {rank} has the sum {values[0].item()}, not {SUM}")
    dist.destroy_process_group()


def exchange():
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        commands = [[sys.executable, "-I", __file__, str(rank), meeting] for rank in range(2)]
        ranks = [subprocess.Popen(command) for command in commands]
        try:
            ended = [rank.wait(LIMIT_S) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    if any(ended):
        raise SystemExit(f"two processes over gloo ended with {ended}")


def main():
    trained = train()
    exchange()
    print(f"torch {torch.__version__} {trained}; two processes over gloo: equal sums")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        add_up(int(sys.argv[1]), sys.argv[2])
    else:
        main()
