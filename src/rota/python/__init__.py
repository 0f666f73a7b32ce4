"""Functions as tasks: `rota.task`, `rota.pipeline`, `rota.Client`. What is public is named in `rota/__init__.py`."""
