"""Datasets of records: they are what TensorFlow and MXNet themselves read, and all frameworks read them alike."""

import json
import os
import subprocess

import pytest

from suites.datasets.image_folder import listing
from tests.trainer_process import ROOT, dataset_facts, environment_for
from workers.trainer.base import manifest

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet", "cntk")
LAYOUTS = ("tfrecord", "recordio")

pytestmark = pytest.mark.after_change

OF_TENSORFLOW = """
import glob, json, sys
import tensorflow as tf
rows = []
for path in sorted(glob.glob(sys.argv[1] + "/train-*")):
    for record in tf.data.TFRecordDataset(path):
        example = tf.train.Example.FromString(record.numpy()).features.feature
        encoded = example["image/encoded"].bytes_list.value[0]
        rows.append([example["image/class/label"].int64_list.value[0] - 1, len(encoded)])
        assert tf.io.decode_jpeg(encoded).shape[2] == 3
print(json.dumps(rows))
"""
OF_MXNET = """
import glob, json, sys
from mxnet import recordio
rows = []
for path in sorted(glob.glob(sys.argv[1] + "/train_*.rec")):
    file = recordio.MXIndexedRecordIO(path[:-4] + ".idx", path, "r")
    for key in file.keys:
        header, encoded = recordio.unpack(file.read_idx(key))
        rows.append([int(header.label), len(encoded)])
print(json.dumps(rows))
"""
BATCHES = """
import importlib, itertools, json, sys
import numpy
loader = importlib.import_module("suites.datasets.image_folder." + sys.argv[2])
def array(x):
    return numpy.asarray(x.asnumpy() if hasattr(x, "asnumpy") else x.asarray() if hasattr(x, "asarray") else x)
rows = []
for images, labels in itertools.islice(loader.batches(sys.argv[1], 6, 64, 1, 0, 1), 5):
    rows.append([[int(x) for x in array(labels).ravel()], float(array(images).mean())])
print(json.dumps(rows))
"""


def said(python, program, *words):
    environment = {**os.environ, **environment_for(python)}
    command = [python, "-c", program, *map(str, words)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.decode().splitlines()[-1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_dataset_is_what_its_facts_say(made_dataset, layout):
    root = made_dataset(f"photographs_{layout}")
    facts, found = dataset_facts(f"photographs_{layout}", root), manifest.identity(manifest.read(root))
    assert found["files"] == facts["files"]
    assert found["bytes"] == pytest.approx(facts["bytes"], rel=0.02)
    assert len(listing.files(str(root))) == facts["train_files"]


@pytest.mark.parametrize(
    ("layout", "framework", "program"), [("tfrecord", "tensorflow", OF_TENSORFLOW), ("recordio", "mxnet", OF_MXNET)]
)
def test_the_framework_whose_layout_it_is_reads_the_same(made_dataset, python_of, layout, framework, program):
    root = made_dataset(f"photographs_{layout}")
    own = [[entry.label, len(listing.encoded(entry))] for entry in listing.files(str(root))]
    assert said(python_of(framework), program, root) == own


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_frameworks_show_the_same_images_in_the_same_order(made_dataset, python_of, layout):
    root = made_dataset(f"photographs_{layout}")
    shown = {framework: said(python_of(framework), BATCHES, root, framework) for framework in FRAMEWORKS}
    for found in shown.values():
        assert [labels for labels, _ in found] == [labels for labels, _ in shown["pytorch"]]
        # Pillow and TensorFlow scale images a little differently.
        assert [mean for _, mean in found] == pytest.approx([mean for _, mean in shown["pytorch"]], abs=0.02)
