"""The Python API: `rota.task`, `rota.pipeline`, `rota.Client`. Public names are listed in `rota/__init__.py`.

`clients`, `sessions` and `futures` submit calls and return results; `pipelines` and `pipeline_builder` build Pipelines;
`task_runner` is the program that runs inside a task.
"""
