"""Process 1 of a host: makes the place its own, says ``ready``, then only buries the dead.

    python host_init.py NAME FOLDER

``FOLDER/NAME`` becomes ``FOLDER/here``, and ``FOLDER/NAME/hosts`` ``/etc/hosts``; they, ``/dev/shm``, ``/sys`` and the
host name are this host's alone. Everything else of the file system is shared with the machine.
"""

import os
import signal
import socket
import subprocess
import sys


def main() -> None:
    name, folder = sys.argv[1:]
    own = os.path.join(folder, name)
    mounts = [
        ["-t", "tmpfs", "-o", "mode=1777", "shm", "/dev/shm"],
        ["-t", "sysfs", "-o", "ro", "sysfs", "/sys"],
        ["--bind", own, os.path.join(folder, "here")],
        ["--bind", os.path.join(own, "hosts"), "/etc/hosts"],
    ]
    for arguments in mounts:
        subprocess.run(["mount", *arguments], check=True)
    socket.sethostname(name)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print("ready", flush=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while True:
        signal.sigwait([signal.SIGCHLD])
        while _bury():
            pass


def _bury() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


if __name__ == "__main__":
    main()
