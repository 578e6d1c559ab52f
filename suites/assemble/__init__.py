"""What models have in common, written once.

A model is no more than this, in a folder ``suites/models/<model>``:

``model.toml``
    its facts: sizes, counts with their sources, ``input`` (a module of ``suites.inputs``), ``[optimizer]``
``network.py``
    ``layers(size)``: what the network is made of, from ``suites.assemble.layers``, in the order of the forward pass
``<framework>.py``
    the network and its loss, see ``build.py`` in the folder of that name beside this: it makes the layers, gives them
    their initial weights and the batches their tensors, and is what an adapter calls: ``build(job, …)``

A model that is none of that (several updates in a step, batches that its actors make) names no ``input`` in its facts
and has ``build`` in its own ``<framework>.py``; what is here helps it all the same.
"""
