"""The regression gate: which nights look slower, and whether they are."""
