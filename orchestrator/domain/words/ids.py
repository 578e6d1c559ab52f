"""Opaque identifiers. They sort by the time they were made, which keeps an index on them compact."""

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, lower case


def make_id(prefix: str, time_ns: int, random_bits: int) -> str:
    """Return ``prefix_`` and 20 characters: 50 bits of milliseconds, 50 bits of chance.

    ``time_ns`` is the real time in nanoseconds, ``random_bits`` an integer of at least 50 random bits.
    """
    value = ((time_ns // 1_000_000) & ((1 << 50) - 1)) << 50 | (random_bits & ((1 << 50) - 1))
    digits = []
    for _ in range(20):
        value, digit = divmod(value, 32)
        digits.append(ALPHABET[digit])
    return f"{prefix}_{''.join(reversed(digits))}"
