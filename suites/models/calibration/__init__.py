"""No network to train: products of matrices, timed by ``workers.trainer.loops.calibration``.

``<framework>.py`` has ``open_products(job, process)``, called after the adapter has joined; what it returns is
described in ``workers.trainer.loops.calibration``.
"""
