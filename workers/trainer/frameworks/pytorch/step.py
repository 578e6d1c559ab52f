"""One step of PyTorch, in parts: the timed loop takes them at a go, the profilers one by one."""


class Step(object):
    """What a step does on ``device``, with ``model``, ``optimizer`` and its ``schedule``, and endless ``batches`` of
    (tensors, work).

    ``parts`` are pairs (name, function) in order; the names are those of ``layers``' breakdown (an update has two
    parts: the gradients of the last step are given back before the forward pass).
    """

    def __init__(self, model, optimizer, schedule, batches, device):
        self.model = model
        self.optimizer = optimizer
        self.loss = None
        self.work = None
        self.tensors = None
        self._schedule = schedule
        self._batches = batches
        self._device = device
        self.parts = (
            ("input", self._fetch),
            ("host_to_device", self._copy),
            ("update", self._clear),
            ("forward", self._forward),
            ("backward", self._backward),
            ("update", self._update),
        )

    def __call__(self):
        """Do one step; return its work."""
        self.compute()
        self._update()
        return self.work

    def compute(self):
        """Do all of a step but its update: the gradients are those of the next batch."""
        for _, part in self.parts[:-1]:
            part()

    def take(self):
        """Return the tensors of the next batch, on the host."""
        self._fetch()
        return self.tensors

    def _fetch(self):
        self.tensors, self.work = next(self._batches)

    def _copy(self):
        self.tensors = [tensor.to(self._device, non_blocking=True) for tensor in self.tensors]

    def _clear(self):
        self.optimizer.zero_grad()

    def _forward(self):
        self.loss = self.model.loss(self.tensors)

    def _backward(self):
        self.loss.backward()
        self.loss = self.loss.detach()

    def _update(self):
        self._schedule()
        self.optimizer.step()
