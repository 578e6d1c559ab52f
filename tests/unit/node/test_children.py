"""What reaches a child: its environment and cores; and how its streams are kept."""

import os
import subprocess
import sys

from workers.node import children


def process(devices):
    return {"name": "worker0", "role": "worker", "ranks": [0], "devices": devices}


def job(processes, **environment):
    return {"token": "secret", "processes": processes, "interpreter": {"environment": environment}}


def cpu(*cores):
    return {"id": "cpu:x", "kind": "cpu", "cores": list(cores)}


def test_what_ray_and_tbd_and_python_set_does_not_reach_a_child():
    inherited = {
        "PATH": "/bin",
        "HOME": "/root",
        "OMP_NUM_THREADS": "1",
        "RAY_ADDRESS": "x",
        "TBD_TOKEN": "admin",
        "PYTHONPATH": "/elsewhere",
        "CUDA_VISIBLE_DEVICES": "3",
        "VIRTUAL_ENV": "/venv",
        "LD_LIBRARY_PATH": "/opt/lib",
    }
    kept = children.environment(inherited, {"OMP_NUM_THREADS": "2"})
    assert kept == {"PATH": "/bin", "HOME": "/root", "LD_LIBRARY_PATH": "/opt/lib", "OMP_NUM_THREADS": "2"}


def test_a_process_on_cpu_devices_sees_no_gpu_and_has_a_thread_for_each_core():
    one = process([cpu(0, 1), cpu(2, 3)])
    added = children.of_process(job([one]), one, "/path", [0, 1, 2, 3, 4])
    assert (added["OMP_NUM_THREADS"], added["CUDA_VISIBLE_DEVICES"]) == ("4", "")
    assert added["TBD_ATTEMPT_TOKEN"] == "secret"
    assert children.cores_of(one) == [0, 1, 2, 3]


def test_where_threads_are_counted_for_each_device_the_devices_share_the_cores():
    one = process([cpu(0, 1), cpu(2, 3)])
    shared = {**job([one]), "strategy": {"threads": "per-device"}}
    assert children.of_process(shared, one, "/path", [0, 1, 2, 3])["OMP_NUM_THREADS"] == "2"


def test_gpus_are_named_by_uuid_and_share_the_cores_of_the_host_among_their_processes():
    one = process([{"id": "GPU-aa", "kind": "cuda", "cores": []}, {"id": "GPU-bb", "kind": "cuda", "cores": []}])
    added = children.of_process(job([one, one]), one, "/path", list(range(8)))
    assert (added["CUDA_VISIBLE_DEVICES"], added["OMP_NUM_THREADS"]) == ("GPU-aa,GPU-bb", "4")


def test_one_gpu_has_the_threads_of_its_share_of_the_host_alone_and_with_all_others():
    def threads(processes, host_gpus=8):
        found = children.of_process(job(processes), processes[0], "/path", list(range(128)), host_gpus)
        return int(found["OMP_NUM_THREADS"])

    one, other = ({**process([{"id": "GPU-aa", "kind": "cuda", "cores": []}]), "node": node} for node in ("a", "b"))
    assert threads([one]) == 16
    assert threads([one] * 8) == 16
    assert threads([one] * 8 + [other] * 8) == 16  # those of another host have cores of their own
    assert threads([{**one, "devices": one["devices"] * 8}]) == 128
    assert threads([one], host_gpus=1) == 128


def test_ranks_that_share_cores_share_who_decodes():
    def decoders(ranks, strategy=None, count=1):
        one = {**process([{"id": "GPU-aa", "kind": "cuda", "cores": []}] * ranks), "ranks": list(range(ranks))}
        found = {**job([one] * count), "strategy": strategy}
        return children.of_process(found, one, "/path", list(range(128)), host_gpus=8)["TBD_DECODERS"]

    assert decoders(1) == decoders(1, count=8) == decoders(8) == decoders(8, {"threads": "per-device"}) == "8"


def test_what_the_interpreter_needs_is_added_last():
    one = process([cpu(0)])
    added = children.of_process(job([one], LD_LIBRARY_PATH="/mpi", OMP_NUM_THREADS="7"), one, "/path", [0])
    assert (added["LD_LIBRARY_PATH"], added["OMP_NUM_THREADS"]) == ("/mpi", "7")


class Pipe:
    def __init__(self):
        self.out, self.into = os.pipe()

    def fileno(self):
        return self.out

    def close(self):
        os.close(self.out)


def test_a_stream_knows_offsets_in_bytes_and_never_splits_a_character():
    pipe = Pipe()
    stream = children.Stream("stdout", pipe)
    text = "äöü".encode()
    os.write(pipe.into, text[:3])
    first = stream.read()
    os.write(pipe.into, text[3:])
    second = stream.read()
    assert (first.offset, first.text, second.offset, second.text) == (0, "ä", 3, "öü")
    os.close(pipe.into)
    stream.close()


def test_an_empty_pipe_gives_nothing_and_does_not_block():
    pipe = Pipe()
    stream = children.Stream("stdout", pipe)
    assert stream.read() is None
    os.close(pipe.into)
    assert stream.read() is None
    assert not stream.open


def test_a_stream_is_kept_up_to_its_limit_with_a_marker_and_its_tail_goes_on(monkeypatch):
    monkeypatch.setattr(children, "OUTPUT_LIMIT_BYTES", 10)
    pipe = Pipe()
    stream = children.Stream("stderr", pipe)
    os.write(pipe.into, b"0123456789abc")
    assert stream.read().text == "0123456789" + children.OUTPUT_MARKER
    os.write(pipe.into, b"the end")
    assert stream.read() is None
    assert stream.tail.endswith(b"the end")
    os.close(pipe.into)
    stream.close()


def test_an_events_file_gives_whole_lines_and_keeps_the_torn_one(tmp_path):
    path = tmp_path / "events"
    events = children.EventsFile(path)
    assert events.read() == []
    path.write_bytes(b"one\ntw")
    assert events.read() == [b"one"]
    with open(path, "ab") as file:
        file.write(b"o\nthree\nfo")
    assert events.read() == [b"two", b"three"]
    assert events.close() == b"fo"


def test_a_line_without_end_is_never_held_as_a_whole_and_what_follows_it_is_read(tmp_path):
    path = tmp_path / "events"
    path.write_bytes(b"")
    os.truncate(path, 1 << 28)
    with open(path, "ab") as file:
        file.write(b"\nafter\ntorn")
    events = children.EventsFile(path)
    longest, last = 0, events.read()
    for _ in range(events.reads_left()):
        last = events.read()
        longest = max(longest, *map(len, last), len(events._rest))
    assert (last[-1], events.reads_left(), events.close()) == (b"after", 0, b"torn")
    assert longest < 20 << 20


def test_a_child_and_its_own_children_get_no_more_memory_than_they_may_have_and_others_do():
    takes = "import subprocess, sys\ntry:\n bytes(300 << 20)\nexcept MemoryError:\n print('no more', end=';')"
    both = [sys.executable, "-c", takes + "\nsubprocess.call([sys.executable, '-c', sys.argv[1]])", takes]
    spawner = children.Spawner()
    try:
        limited = spawner.popen(both, memory_bytes=200 << 20, stdout=subprocess.PIPE)
        assert limited.communicate()[0] == b"no more;no more;"
        free = spawner.popen(both, stdout=subprocess.PIPE)
        assert free.communicate()[0] == b""
    finally:
        spawner.close()


def test_a_process_may_have_the_limit_of_each_of_its_devices():
    one = process([cpu(0), cpu(1)])
    limited = job([one]) | {"plan": {"memory_limit_bytes": 100}}
    assert children.memory_of(limited, one) == 200
    assert children.memory_of(limited, process([])) == 100
    assert children.memory_of(job([one]) | {"plan": {}}, one) is None
