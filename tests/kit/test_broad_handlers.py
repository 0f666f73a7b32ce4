"""Handlers of every exception: none loses the traceback of a mistake in the program without saying why it may."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import rota

ROOT: Final = Path(rota.__file__).parent
_BROAD: Final = frozenset({"Exception", "BaseException"})
#: Calls that keep the traceback: logged, printed, or handed on with the exception itself.
_KEEPING: Final = frozenset(
    {"exception", "print_exc", "print_exception", "set_exception", "fault", "format_exc", "_log_bind_error", "_written"}
)
#: Handlers that do neither, by module and function, with the reason.
JUSTIFIED: Final = {
    ("cli/commands/completion_source.py", "_asked"): "a shell completes a line: there is no place for any output",
    ("federation/control/works_loop.py", "_usable"): "logged below, with the member that reported it",
    ("federation/member/observation.py", "observe"): "becomes the condition of the member",
    ("kit/serial_executor.py", "_work"): "the caller that waits raises it",
    ("kit/tasks.py", "_supervise"): "logged below, with what becomes of the task",
    (
        "python/serialization.py",
        "_complaint",
    ): "tries what cannot be pickled; the caller raises the answer from the first",
    ("python/serialization.py", "_culprit"): "as above",
    ("python/sessions.py", "_read"): "is the cause of what the user's `result()` raises",
    ("python/sessions.py", "_settled"): "is what the user's `result()` raises",
    ("python/outcomes.py", "raised"): "the task's own exception stands for it, with the far side's traceback",
    ("python/remote_results.py", "read_value"): "is the cause of what the user's `result()` raises",
    ("python/lease_manager.py", "_ask"): "is what the user's `result()` raises",
    ("python/lease_pool.py", "_run_with_needs"): "is what the user's `result()` raises",
    ("python/lease_child.py", "run"): "is printed with its traceback; the process ends",
    ("python/lease_child.py", "_outcome"): "is sent to the client, with its traceback if it is the function's own",
    ("python/task_runner.py", "_exception"): "tries how an exception can be sent; the exception itself is reported",
    ("scheduler/core/scheduler_core.py", "_attempt"): "the effect AttemptFailed has it; the driver logs its traceback",
    ("scheduler/core/scheduler_core.py", "_extenders_answered"): "as above",
    ("scheduler/core/scheduler_core.py", "_binding_ended"): "the effect Fault has it; the driver logs its traceback",
    (
        "scheduler/explanation/node_tables.py",
        "__init__",
    ): "asks filters once more than the attempt, which reports them",
    ("scheduler/framework/binding_points.py", "nothing_to_prepare"): "`pre_bind` asks again and reports",
    ("worker/runtimes/process/spawn.py", "_become"): "a forked child reports one line by its pipe and ends",
}


def _handlers() -> Iterator[tuple[str, str, int, ast.ExceptHandler]]:
    for file in sorted(ROOT.rglob("*.py")):
        where = file.relative_to(ROOT).as_posix()
        if where.startswith("testing/"):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in _own(function):
                    if (
                        isinstance(node, ast.ExceptHandler)
                        and isinstance(node.type, ast.Name)
                        and node.type.id in _BROAD
                    ):
                        yield where, function.name, node.lineno, node


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """What is in a function, without the functions in it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from _own(node)


def _keeps(handler: ast.ExceptHandler) -> bool:
    for node in ast.walk(handler):
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in _KEEPING:
                return True
    return False


def test_no_handler_of_every_exception_loses_the_traceback() -> None:
    losing = {(where, function): line for where, function, line, handler in _handlers() if not _keeps(handler)}
    unjustified = [
        f"{where}:{line} in {function}"
        for (where, function), line in losing.items()
        if (where, function) not in JUSTIFIED
    ]
    assert not unjustified, "\n".join(unjustified)
    assert JUSTIFIED.keys() <= losing.keys(), "a reason for what is no longer there"
