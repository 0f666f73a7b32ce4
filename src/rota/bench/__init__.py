"""Benchmarks of `rota bench`, as ratios to a reference measured in the same run; one module per measured component."""
