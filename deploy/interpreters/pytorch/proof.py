"""One real training step in PyTorch: the loss of a linear fit falls. Prints what was proved."""

import torch


def main():
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
    print(f"torch {torch.__version__} on {device}: loss {losses[0]:.6f} -> {losses[1]:.6f}")


main()
