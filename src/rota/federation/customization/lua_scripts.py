"""Runs the Lua scripts of ResourceInterpreterCustomizations, in a child process with limits (`lua_child.py`).

A script that uses too much processor time ends its process; the next call gets a new one.
"""

import asyncio
import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from rota.api import meta
from rota.federation.customization import operations
from rota.federation.customization.operations import SCRIPTS, CannotInterpret, Found, Operation, Question
from rota.kit import logs

log = logs.get(__name__)

Object: TypeAlias = Mapping[str, Any]
Kind: TypeAlias = tuple[str, str]
#: By kind and operation: scripts; only dependencies have more than one.
Rules: TypeAlias = Mapping[tuple[Kind, Operation], Sequence[str]]

#: Processor time of one call, as upstream's time limit.
CALL_S: Final = 1.0
#: How long a call may take on a machine that gives the child no processor time.
_PATIENCE_S: Final = 30.0
_LINE_BYTES: Final = 16 * 1024 * 1024
_MODULE: Final = "rota.federation.customization.lua_child"


def is_available() -> bool:
    """Whether Lua is installed (`rota[lua]`)."""
    return importlib.util.find_spec("lupa") is not None


def rules(customizations: Iterable[Object]) -> dict[tuple[Kind, Operation], tuple[str, ...]]:
    """The scripts by kind and operation. Of several customizations the first by name counts; dependencies add up."""
    found: dict[tuple[Kind, Operation], tuple[str, ...]] = {}
    for one in sorted(customizations, key=meta.name):
        spec: Object = one.get("spec") or {}
        target: Object = spec.get("target") or {}
        kind = (target.get("apiVersion") or "", target.get("kind") or "")
        for operation, (member, _, _) in SCRIPTS.items():
            script = ((spec.get("customizations") or {}).get(member) or {}).get("luaScript")
            if not script:
                continue
            if operation is Operation.DEPENDENCIES:
                found[kind, operation] = (*found.get((kind, operation), ()), script)
            else:
                found.setdefault((kind, operation), (script,))
    return found


class OutOfTime(CannotInterpret):
    """A script did not return in its time."""


class Runner(Protocol):
    """Calls functions of scripts; see `LuaProcess.call`."""

    async def call(  # noqa: D102 - above
        self, script: str, function: str, arguments: Sequence[Any], *, returns: int, like_arguments: bool
    ) -> list[Any]: ...


class LuaProcess:
    """The child process; started by the first call."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._lock: Final = asyncio.Lock()

    async def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None

    async def call(
        self, script: str, function: str, arguments: Sequence[Any], *, returns: int, like_arguments: bool
    ) -> list[Any]:
        """The values that a function of a script returns."""
        request = {
            "script": script,
            "function": function,
            "arguments": list(arguments),
            "returns": returns,
            "like_arguments": like_arguments,
            "seconds": CALL_S,
        }
        async with self._lock:
            process = await self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    process.stdin.write(msgspec.json.encode(request) + b"\n")
                    await process.stdin.drain()
                    line = await process.stdout.readline()
            except TimeoutError as error:
                await self.close()
                raise OutOfTime(f"{function}: no answer within {_PATIENCE_S:g} s") from error
            except (OSError, ValueError) as error:
                await self.close()
                raise CannotInterpret(f"{function}: no answer: {str(error) or type(error).__name__}") from error
            except BaseException:
                await self.close()  # its answer would be taken for that of the next call
                raise
            if not line:
                await self.close()
                raise OutOfTime(f"{function}: the script used more than {CALL_S:g} s of processor time")
        answer = msgspec.json.decode(line)
        if "error" in answer:
            raise CannotInterpret(f"{function}: {answer['error']}")
        results: list[Any] = answer["results"]
        return results

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            if not is_available():
                raise CannotInterpret("Lua scripts need lupa: install rota[lua]")
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-m",
                _MODULE,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_LINE_BYTES,
                env={},
            )
        return self._process


class LuaScripts:
    """A `Source` of the scripts that `rules` returns at the time of a question."""

    def __init__(self, rules: Callable[[], Rules], process: Runner) -> None:
        self._rules: Final = rules
        self._process: Final = process

    async def ask(self, question: Question, /) -> Found | None:
        """See `Source.ask`."""
        scripts = self._rules().get((question.kind, question.operation), ())
        if not scripts:
            return None
        if question.operation is Operation.DEPENDENCIES:
            found: list[dict[str, Any]] = []
            for script in scripts:
                found += operations.as_objects((await self._run(question, script))[0], question)
            return Found(_sorted(found))
        return Found(_answer(question, await self._run(question, scripts[0])))

    async def _run(self, question: Question, script: str) -> list[Any]:
        _, function, returns = SCRIPTS[question.operation]
        more: dict[Operation, Any] = {
            Operation.REVISION: question.replicas,
            Operation.RETENTION: question.observed,
            Operation.AGGREGATION: list(question.items),
        }
        arguments = [question.object, *([more[question.operation]] if question.operation in more else [])]
        try:
            return await self._process.call(
                script, function, arguments, returns=returns, like_arguments=question.operation in more
            )
        except CannotInterpret as error:
            raise CannotInterpret(f"{question.where}: {error}") from error


def _answer(question: Question, values: Sequence[Any]) -> Any:
    match question.operation:
        case Operation.REPLICAS:
            if isinstance(values[0], bool) or not isinstance(values[0], int):
                raise CannotInterpret(f"{question.where}: the replicas are {values[0]!r}, not a whole number")
            return values[0], operations.as_requirements(values[1], question)
        case Operation.COMPONENTS:
            return operations.as_objects(values[0], question)
        case Operation.HEALTH:
            if not isinstance(values[0], bool):
                raise CannotInterpret(f"{question.where}: the health is {values[0]!r}, neither true nor false")
            return values[0]
        case _:
            return operations.as_object(values[0], question)


def _sorted(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each dependency once, in the order of its members."""
    distinct = {msgspec.json.encode(one, order="sorted"): one for one in found}
    members = ("apiVersion", "kind", "namespace", "name")
    return sorted(distinct.values(), key=lambda one: tuple(str(one.get(member) or "") for member in members))
