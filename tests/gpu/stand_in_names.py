"""What ``stand_in`` and its tests agree on; to be read without PyTorch."""

NAME = "stand-in for a GPU"
TOTAL_BYTES = 80 * 2**30
# What a context and the libraries take of it.
CONTEXT_BYTES = 500 * 2**20
# Of ``torch.cuda``, what is counted when it is called.
COUNTED = ("get_device_capability", "get_device_name", "init", "is_available", "max_memory_allocated", "mem_get_info")
COUNTED += ("get_rng_state", "set_device", "set_rng_state", "synchronize", "Event", "max_memory_reserved")
COUNTED += ("reset_peak_memory_stats",)
# Those that the trainings of the tests have no use for: an exception's type, what several ranks say first, graphs,
# which only a GPU records, and what is asked of a person's own script alone.
NOT_CALLED = {"torch.cuda.OutOfMemoryError", "torch.cuda.make_graphed_callables", "torch.cuda.set_device"}
