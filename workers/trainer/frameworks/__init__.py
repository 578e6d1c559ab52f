"""Adapters: one module per framework, named as in a spec, with a class ``Adapter`` and its facts in a ``.toml`` beside.

An adapter is six verbs and has no clock (``workers.trainer.loop`` has):

``versions()``
    {framework, version, libraries {name: version}}
``join(job, process)``
    meet the other ranks by the framework's own means; return the world size
``build(job, process, watch)``
    the model, the optimiser and the input, ready for the first step; batches go through ``watch``, by which the loop
    knows how long they were waited for. Returns {parameters, mathematics {}, device, exchange {}}: the last says how
    gradients are exchanged
``step()``
    one optimiser update; returns its work, such as {"images": 4}. It may return before the device is done
``synchronize()``
    return when the device is done
``loss()``
    the loss of the last step, a float

and besides, never inside a timed interval:

``activity(steps)``
    where ``abilities`` has it: {active_s, elapsed_s, method} of so many profiled steps, by the profiler's own clock
``memory()``
    {peak_bytes, method}, or None: then the process's peak resident set stands for it
``weights(index)``
    yields the trainable weights of the index-th rank that this process drives, as numpy arrays in a fixed order
``serve(job, process)``
    for a process of role ``scheduler`` or ``server``, where a strategy has them: returns when the workers are done
``close()``
    end what the input runs in the background: processes and threads, which must not outlive the framework
``failure_of(error)``
    the failure kind of a foreign exception, or None: the one place where a framework's exceptions are known; or
    ``failure.PEER_LOST``, which rank it was is then asked of the control channel

A model is found at ``job["model"]["module"] + "." + framework``; what that module has to offer stands in each adapter.
"""
