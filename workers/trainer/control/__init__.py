"""The control channel: how all ranks of an attempt begin every interval together and stop at the same step.

Rank 0 listens at ``job.control``; every other process connects and says ``{"token", "rank"}``; the node agent
connects and says ``{"token", "role": "agent"}``. Then, one JSON object a line:

* a rank, before each interval: ``{"ready": steps done}``, or ``{"failed": kind, "message"}`` and nothing more;
* rank 0, to all ranks: ``{"joined": world_size}`` once, ``{"agreed": value}`` where all are to know what it has
  chosen, then ``{"go": n, "phase"}`` or ``{"stop": reason}``; the latter
  with ``failure`` and ``ranks`` where a rank has failed, and that ends every rank;
* the agent, at any time: ``{"stop": reason}``, obeyed before the next interval;
* rank 0, to ranks on other nodes, when all have joined and before it says stop: ``{"ping": number}``, answered at once
  by ``{"pong": number, "t": the monotonic clock there}``. From these the nodes' clocks are related to each other.

Nobody waits without a time-out, and nobody is listened to without the attempt's token. Nothing here happens inside an
interval: messages are read and sent between them.
"""

from typing import Union

from workers.trainer.base.job import Job, Process
from workers.trainer.control.leader import Leader
from workers.trainer.control.member import Member

# An end of the channel.
Channel = Union[Leader, Member]


def open_channel(job: Job, process: Process, again: bool = False) -> Channel:
    """Return the channel's end for ``process``: ``Leader`` with rank 0, else ``Member``.

    ``again``: other processes have used the same address before, and the last of them may still listen there.

    Raises:
        TrainerError: ``setup_failed``, the address cannot be listened on.
    """
    ranks = job.leading_ranks
    timeout_s = job.plan.timeout_s
    rank = process.rank
    if rank == ranks[0]:
        far = job.ranks_on_other_nodes(process)
        return Leader(job.control, job.token, ranks[1:], job.world_size, timeout_s, far)
    return Member(job.control, job.token, rank, timeout_s, again=again)
