"""What is measured: models, the data they train on, experiments that are ready to run, and facts with their sources.

How a model gets from its facts to a step that is timed (step 6 of ``workers/__init__.py``). ResNet-50 stands for all
models, PyTorch for all frameworks. A test looks every name up (tests/architecture/test_walk.py).

 1. The facts of a model stand in a TOML file: its sizes, its counts of parameters and operations with their source, its
    optimiser, and what differs between frameworks. The service reads them when it starts, and they travel in the job.
    ``suites/models/resnet_50/model.toml``
    ``orchestrator/services/catalog.py: load_catalog``
 2. The network is described once for all frameworks, as data: its layers, the shapes of its parameters, and initial
    weights that are equal for equal seeds.
    ``suites/models/resnet_50/architecture.py: convolutions, shapes, initial_weights, flops``
 3. The adapter of a framework imports the model's module for that framework and asks it to build the model.
    ``workers/trainer/frameworks/pytorch.py: Adapter.build``
    ``suites/models/resnet_50/pytorch.py: build, ResNet``
 4. Batches come from synthetic data or from the files of a dataset, which the node's agent has prepared.
    ``suites/datasets/images.py: batches, synthetic``
    ``suites/datasets/photographs/dataset.toml``
    ``suites/datasets/photographs/prepare.py: main``
    ``suites/datasets/image_folder/pytorch.py: batches``
 5. A step is one update: a batch, the forward pass, the loss, the backward pass, the optimiser.
    ``workers/trainer/frameworks/pytorch_step.py: Step``

Beside them: experiments that are ready to run (``suites/quick.yaml``), and the peak rates of devices by their data
sheets (``suites/device_peaks.toml``). All code here is clean for Python 3.6.
"""
