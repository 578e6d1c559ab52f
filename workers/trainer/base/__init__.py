"""What loops, adapters and models share, and what therefore rests on nothing but the protocol: the job as types,
failures, the rules of optimisers, the updates of a step. Nothing here imports a model, an adapter or a loop, by name
neither.
"""
