"""What is measured: models, the data they train on, experiments that are ready to run, and facts with their sources.

How a model gets from its facts to a step that is timed (step 6 of ``workers/__init__.py``). ResNet-50 stands for all
models, PyTorch for all frameworks. A test looks every name up (tests/architecture/test_walk.py).

 1. The facts of a model stand in a TOML file: its sizes, its counts of parameters and operations with their source, its
    optimiser, and what differs between frameworks. The service reads them when it starts, and they travel in the job.
    ``suites/models/resnet_50/model.toml``
    ``orchestrator/services/facts/catalog.py: load_catalog``
 2. The network is described once for all frameworks, as data: its layers in order. From these follow the shapes of its
    parameters, its operations, and initial weights that are equal for equal seeds.
    ``suites/models/resnet_50/network.py: layers``
    ``suites/assemble/layers.py: Convolution, shapes, flops, initial_weights``
 3. The adapter of a framework has the model built by what all models of that framework share. It makes the layers, lays
    out the weights, and takes the network and its loss from the model's module.
    ``workers/trainer/frameworks/pytorch/adapter.py: Adapter.build``
    ``suites/modules.py: builder_of, part_of``
    ``suites/assemble/pytorch/build.py: build, Model``
    ``suites/assemble/pytorch/layers.py: module``
    ``suites/assemble/parts.py: weights_of, batches``
    ``workers/trainer/base/optimizer.py: of_job, rate``
    ``suites/models/resnet_50/pytorch.py: Network, criterion``
 4. Batches come from synthetic data or from the files of a dataset, which the node's agent has prepared.
    ``suites/inputs/images.py: batches, synthetic``
    ``suites/datasets/photographs/dataset.toml``
    ``suites/datasets/photographs/prepare.py: write_all``
    ``suites/datasets/making.py: main``
    ``suites/datasets/image_folder/pytorch.py: batches``
 5. A step is mostly one update: a batch, the forward pass, the loss, the backward pass, the optimiser. A model may have
    several updates in a step, each with weights, a loss, an optimiser and batches of its own.
    ``workers/trainer/base/updates.py: Update``
    ``workers/trainer/frameworks/pytorch/step.py: Minimizer, Step``

Beside them: experiments that are ready to run (``suites/quick.yaml``), and the peak rates of devices by their data
sheets (``suites/device_peaks.toml``). All code here is clean for Python 3.6.
"""
