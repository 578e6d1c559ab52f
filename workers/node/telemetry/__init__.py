"""Readings beside a running attempt: processor time, memory, network, devices, and who else is on this host."""
