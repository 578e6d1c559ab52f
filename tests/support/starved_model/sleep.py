"""Where no memory is left, an ``except`` is left by another exception, so far down its function that the place is none
of the small integers that Python always has."""

_FAR_DOWN = "    here = 0\n" * 400
_STARVE = f"""
def starve(take_all):
{_FAR_DOWN}
    try:
        take_all()
    except MemoryError:
        take_all()
"""


def build(job, process, options):
    found = {}
    exec(_STARVE, found)
    kept, place = [None] * 1_000_000, [0]

    def take_all():
        for size in (1 << 20, 1 << 16, 4096, 400, 200, 100, 60, 40, 24, 8):
            while True:
                try:
                    kept[place[0]] = bytes(size)
                except MemoryError:
                    break
                place[0] += 1
        number = 1 << 20
        while True:
            kept[place[0]] = number = number + 1
            place[0] += 1

    found["starve"](take_all)
