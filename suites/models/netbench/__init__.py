"""No network to train: messages between ranks, timed by ``workers.trainer.loops.netbench``.

``<framework>.py`` has ``open_exchange(job, process, adapter)``, called after the adapter has joined; what it returns is
described in ``workers.trainer.loops.netbench``.
"""
