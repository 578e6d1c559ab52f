"""The one exception with which a part of the trainer says that the attempt cannot go on, and why.

Also how a full disk is told from any other trouble: here and on the node's side of the attempt it is the same error.
"""

import errno
from typing import Optional, Sequence

# What an adapter's ``failure_of`` answers when an exception only tells that another rank has gone. Not a failure kind:
# which rank it was, and why, is known on the control channel.
PEER_LOST = "peer_lost"


class TrainerError(Exception):
    """Ends this process; ``kind`` is one of ``protocol.FAILURE_KINDS`` and decides the exit status.

    ``ranks`` are the ranks at which the cause lies, where that is known: not always the one that reports it.
    """

    def __init__(self, kind: str, message: str, ranks: Optional[Sequence[int]] = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.ranks = ranks


def lacks_space(error: Optional[BaseException]) -> bool:
    """Whether ``error``, or one that it was raised from, says that a disk is full or a quota used up."""
    seen = []
    while error is not None and error not in seen:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        seen.append(error)
        error = error.__cause__
    return False
