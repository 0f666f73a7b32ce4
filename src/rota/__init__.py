"""Rota: a scheduler for any work on any machines.

From Python: `rota.task`, `rota.pipeline`, `rota.Client` and their companions. They are imported on first use, so
that `import rota` and the command line start fast. Type checkers read `__init__.pyi`.
"""

__version__ = "0.1.0"

_HOMES = {
    "actors": ("Actor", "ActorClass", "actor"),
    "pipeline_builder": ("PipelineError", "on_exit"),
    "clients": ("AsyncClient", "Client"),
    "executors": ("Executor",),
    "failures": (
        "Deleted",
        "Evicted",
        "NoResult",
        "NotDone",
        "NotPicklable",
        "NotReachable",
        "OutOfMemory",
        "Refused",
        "RemoteError",
        "RemoteTraceback",
        "RunCancelled",
        "StepFailed",
        "TaskDied",
        "TaskLost",
        "TimedOut",
        "TooLarge",
        "WrongEnvironment",
    ),
    "futures": ("Future", "as_completed", "results", "wait"),
    "options": ("OptionError", "from_secret"),
    "progress": ("Progress",),
    "pipelines": ("Pipeline", "pipeline", "run_name", "run_status", "status_of"),
    "rota.simulator.python_api": ("simulate",),
    "runs": ("Run",),
    "tasks": ("Task", "task"),
}
_WHERE = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _WHERE.get(name)
    if home is None:
        raise AttributeError(f"module 'rota' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - imported on first use

    found: object = getattr(import_module(home if "." in home else f"rota.python.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
