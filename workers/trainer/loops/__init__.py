"""What a process of an attempt does from its meeting with the others to its last word: a training at full speed or to a
quality, a microbenchmark, one step for a counter, what all frameworks must agree on."""
