"""One file for each step, never changed once released."""
