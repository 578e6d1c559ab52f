"""Adapters: one module per framework, named as in a spec, with a class ``Adapter`` and its facts in a ``.toml`` beside.

An adapter has no clock: the loop has (``workers.trainer.loops.training``), which calls these:

``versions()``
    {framework, version, libraries {name: version}}
``join(job, process)``
    meet the other ranks by the framework's own means; return the world size
``build(job, process, watch)``
    the model, the optimiser and the input, ready for the first step; batches go through ``watch``, by which the loop
    knows how long they were waited for. Returns {parameters, mathematics {}, device, exchange {}}: the last says how
    gradients are exchanged
``step()``
    all updates of the model, once or as often as it says (``workers.trainer.base.updates``), mostly one; returns their
    work, such as {"images": 4}. It may return before the device is done
``synchronize()``
    return when the device is done
``loss()``
    the loss of the last step, a float: of its first update

and besides, never inside a timed interval:

``activity(steps)``
    where ``abilities`` has it: {active_s, elapsed_s, method} of so many profiled steps, by the profiler's own clock
``kernels(steps)``
    where ``abilities`` has it: {steps, elapsed_s, active_s, method, rows, spans}. ``rows``: [name, calls, total_s] over
    all ``steps`` of kernels on a GPU (copies and communication among them), of operators on a CPU device, by their self
    time: so the totals add up to no more than threads x elapsed. ``active_s``: the union of their intervals. ``spans``:
    the timeline of some 4,000 items at most, {names, lanes, items: [[name_index, lane_index, start_s, duration_s], …]},
    start_s on CLOCK_MONOTONIC of this process; lanes are threads or streams
``layers(steps)``
    where ``abilities`` has it: {steps, elapsed_s, method, serialised, breakdown, rows, exchanges}. ``breakdown``: the
    parts of ``protocol.BREAKDOWN``, seconds per step; null where one cannot be told, and then ``reasons`` {part: why}.
    ``rows``: {name, kind (the framework's own word), parameters_bytes, forward_s, backward_s} per step, in the order of
    the forward pass. ``exchanges``: of one step, {name, bytes, start_s, end_s} in seconds from the start of its
    backward pass; none where there is one rank. ``serialised``: whether the profiler kept layers from overlapping.
    ``exposed_exchange_s``: seconds of a step in which the exchange goes on and nothing is computed, or None, and the
    breakdown's ``reasons`` say under that name why
``memory_profile(job, process, watch)``
    where ``abilities`` has ``memory``; in a fresh process, after ``join`` and instead of ``build``: builds the model
    with every allocation followed, runs a few steps, and returns {method, steps, classes, allocations, peak_bytes,
    peak_method, outside_bytes}. ``allocations``: [class_index, delta_bytes, step] in order of time, freed ones
    negative, step 0 for the build; classes as in ``protocol.MEMORY_CLASSES``. ``peak_bytes`` is measured apart from the
    list and read when that is complete; nothing is scaled to it. ``outside_bytes``: what the process holds on the
    device beyond its allocator, or None
``memory()``
    {peak_bytes, method}, or None: then the process's peak resident set stands for it. With ``reserved_bytes`` where an
    allocator keeps more than it gives out: its own peak
``forget_peak()``
    called before the first timed step: returns the peak in bytes until then, and ``memory`` counts from now on. The
    build, compiling and the search for algorithms take memory that no later step does. None where it goes on counting
``weights(index)``
    yields the trainable weights of the index-th rank that this process drives, as numpy arrays in a fixed order
``gradients()``
    of a model that is assembled (``suites.assemble``): {loss, gradients, margins} of the next batch, without an update.
    ``gradients``: {described name: array in the description's layout} of all trainable parameters, of the mean over
    the samples; where there are several updates, each by a batch of its own. ``margins``: how near the batch brings
    the network's choices to their borders, where the framework can tell, else nothing in it
``state()``
    of such a model: {weights {described name: array}, statistics {``<normalisation>.running_mean``, ``…_var``: array}},
    all in the description's layout; the statistics as they are after one batch
``outputs(batch)``
    where ``abilities`` has ``evaluate``: what the network gives, a tuple of numpy arrays of which the first is the
    one that its quality is told by, for a batch's arrays (``suites.inputs``), or for those that are inputs; as it is
    evaluated: nothing is dropped, batches are normalised by the running statistics. Numbers in single precision. On
    this process's first rank alone: the others are not waited for. Nothing of the training changes
``evaluate(batch)``
    with ``outputs``: (outputs, the loss, the mean over the samples, a float), of a batch with its targets
``checkpoint()``
    where ``abilities`` has it: {name: array} of all that the training goes on from, as numpy arrays without objects:
    the weights, what is kept beside them (running statistics), the optimiser's state, the rates' step, the factor of a
    scaled loss, and the generators that dropout draws from. Names and layouts are the framework's own
``restore(arrays, steps)``
    with ``checkpoint``: after ``build``, take them, and pass over the batches of ``steps`` steps
``reseed(steps)``
    with ``checkpoint``, of MXNet and CNTK only: draw what is dropped by these steps and the seed from now on. They
    cannot tell how far their generators have drawn, so the loop calls it wherever a checkpoint may be, whether or not
    one is, before the next step: what CNTK evaluates between takes up what it was told
``checkpointed``
    with ``checkpoint``: the names of the strategies with which it is there
``not_checkpointed``
    where some strategy has none: {its name: why}, for the event ``resumed``
``case()``
    PyTorch's only: a case for ``workers.trainer.loops.parity``
``switches``
    the names of those options of a spec that are the framework's own, true or false (``job.plan.switches``)
``abilities_with_several``
    those of ``abilities`` that are told of a model with several updates too: sums over all of a step
``joined``
    TensorFlow's and MXNet's only, after ``join``: the object by which this process exchanges with the other ranks, for
    what times exchanges and trains nothing (``suites.models.netbench``)
``serve(job, process)``
    for a process of role ``scheduler`` or ``server``, where a strategy has them and they need the framework: returns
    when the workers are done
``close()``
    end what the input runs in the background: processes and threads, which must not outlive the framework
``failure_of(error)``
    the failure kind of a foreign exception, or None: the one place where a framework's exceptions are known; or
    ``failure.PEER_LOST``, which rank it was is then asked of the control channel

A model is found at ``job.model.module + "." + framework``; what that module has to offer stands in each adapter.
"""
