"""One run of a person's own script on this node, of several on which it trains together (``tbd exec --nodes``).

Each node carries out its command and follows its own ranks, as it would alone. When all ranks have begun the nodes know
of each other which ranks they have: so each makes the same job and opens a log of its own with it, and the hooks learn
where rank 0 listens. Where one node fails or goes, the others end.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping, Sequence

from workers.node.event_log import EventLog
from workers.node.length import Length
from workers.node.outcome import Failure
from workers.node.own.jobs import Share, joined
from workers.node.own.meeting import Meeting
from workers.node.own.script import Command, OwnScript
from workers.node.supervisor import Surroundings
from workers.trainer import hook


class OverNodes(OwnScript):
    """The part of this node; ``meeting`` has the others."""

    def __init__(
        self,
        command: Command,
        meeting: Meeting,
        job: Mapping[str, Any],
        folder: Path,
        log: EventLog,
        around: Surroundings,
    ) -> None:
        # With the node's name in their environment, processes of two nodes that are one machine are told apart.
        super().__init__(command, job, folder, log, around._replace(node=meeting.node))
        self._meeting = meeting
        self._gang.several_nodes = True
        self._said = 0

    def _is_whole(self, told: Sequence[Mapping[str, Any]]) -> bool:
        if len(told) != self._said:
            self._said = len(told)
            share = self._share(told, [int(one["rank"]) for one in told])
            self._meeting.told[self._meeting.node] = share._asdict()
            self._meeting.say(told=share._asdict())
        self._heed()
        shares = self._shares()
        sizes = [int(one.told[0]["world_size"]) for one in shares]
        whole = len(shares) == len(self._meeting.nodes)
        return whole and sum(len(one.ranks) for one in shares) >= max(sizes)

    def _shares(self) -> list[Share]:
        return [Share(**one) for one in self._meeting.told.values()]

    def _heed(self) -> None:
        """Hear the others. If one of them is at its end too soon, so is this run."""
        meeting = self._meeting
        meeting.hear()
        for node, failure in meeting.ended.items():
            if failure is not None:
                kind = "cancelled" if failure["kind"] == "cancelled" else "node_lost"
                self.stop(kind, f"node {node}: {failure['message']}")
        for node in meeting.lost:
            if node not in meeting.ended:
                self.stop("node_lost", f"node {node} has gone")

    def _listen(self) -> None:
        super()._listen()
        self._heed()

    def _wrong(self, told: Sequence[Mapping[str, Any]]) -> Failure | None:
        shares = self._shares()
        ranks = sorted(rank for one in shares for rank in one.ranks)
        size = int(told[0]["world_size"])
        without = [node for node in self._meeting.nodes if node not in self._meeting.told]
        counts = {one.node: len(one.ranks) for one in shares}
        if self._stop is not None:
            return self._stopped()
        if len(set(ranks)) < len(ranks) or size < len(ranks):
            message = "each node trains by itself: of torchrun say --nnodes and the same --rdzv-endpoint on all"
        elif without or len(ranks) < size:
            message = f"{len(ranks)} of {size} ranks have begun to train{f', none on {without[0]}' if without else ''}"
        elif len(set(counts.values())) > 1:
            message = f"the nodes have different numbers of ranks: {counts}"
        else:
            return self._too_many(told, len(told))
        return Failure("unsupported", [int(one["rank"]) for one in told], message=message)

    def _joined(self, told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = joined(self._job, self._shares())
        self._length = Length(self._job, leads=any(one["rank"] == 0 for one in told))
        whole = self._folder / f"{hook.CONTROL}.new"
        whole.write_text(json.dumps([found["control"]["host"], found["control"]["port"]]))
        whole.rename(self._folder / hook.CONTROL)
        return found
