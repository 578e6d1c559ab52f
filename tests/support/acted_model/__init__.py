"""A model whose batches are made by the actors beside each worker; as ``sleep`` does, it trains nothing."""

import struct

# What an actor sends, again and again.
NUMBER = struct.Struct("!d")
