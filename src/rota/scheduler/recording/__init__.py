"""Recordings: the scheduler's decisions with everything they depend on, in a file; `rota replay` repeats them."""
