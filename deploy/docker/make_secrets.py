"""Makes the secrets that are not there yet, each a random line in a file that only owner and group may read.

make_secrets.py FOLDER NAME ...

Secrets that are there are left as they are: those of a person, or of the last start.
"""

import os
import secrets
import stat
import sys

BYTES = 32


def main() -> int:
    folder, *names = sys.argv[1:]
    wrong = [said for name in names if (said := see_to(os.path.join(folder, name)))]
    for said in wrong:
        print(said, file=sys.stderr)
    return 1 if wrong else 0


def see_to(path: str) -> "str | None":
    """Make the secret unless it is there; what is wrong with it."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        make(path)
        return None
    except OSError as error:
        return f"the secret {path} cannot be read: {error.strerror}"
    if mode & stat.S_IRWXO:
        return f"everybody may use the secret {path} (mode {stat.S_IMODE(mode):04o}): chmod o= it, and take a new one"
    return None


def make(path: str) -> None:
    """Write a new secret; nobody ever sees a half of it."""
    half = path + ".new"
    descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o440)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(file.fileno(), 0o440)
        file.write(secrets.token_hex(BYTES) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(half, path)


if __name__ == "__main__":
    sys.exit(main())
