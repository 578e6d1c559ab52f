"""What the tests of the frameworks' profiles against other methods share: the models, and what a process has said of a
profile. They take long; whole runs that ask for profiles are ``tests/integration``'s."""

from suites.assemble.layers import Lstm
from tests.support import networks

RESNET, LSTM = "resnet_50", "lstm_classifier"
SHAPES = {model: networks.shapes(model) for model in (RESNET, LSTM)}
WHOLE = {model: 4 * networks.parameters(model) for model in SHAPES}  # bytes
# The two biases of an LSTM are only ever added up: TensorFlow computes one gradient for both.
SHARED = {RESNET: 0, LSTM: sum(4 * 4 * one.hidden for one in networks.described(LSTM) if isinstance(one, Lstm))}
# Least share of a time that its parts must add up to. A part that is lost is more than the rest; on a machine that is
# busy with other things pauses come between the parts, of a length that nobody can tell.
COVERED = 0.5


def only(process, kind):
    """Return the data of the one event of ``kind``."""
    (found,) = process.data(kind)
    return found


def phase(process, name):
    """Return the begin, the end and the data of a profiling phase."""
    told = next(data for data in process.data("profiled") if data["profile"] == name)
    return told["begun_t"], told["begun_t"] + told["elapsed_s"], only(process, name)


def spans_of(process):
    """Return [(name, lane, start, duration)] of the timeline."""
    chunks = process.data("spans")
    return [(one["names"][name], one["lanes"][lane], *times) for one in chunks for name, lane, *times in one["items"]]


def has_outside(framework, memory):
    """CNTK does not know it where MKL writes code: much of its room in the heap nobody touches."""
    outside_bytes = memory.whole["outside_bytes"]
    return framework == "cntk" if outside_bytes is None else outside_bytes > 0
