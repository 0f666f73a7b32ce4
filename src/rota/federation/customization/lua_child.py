"""The process that runs Lua scripts: one request per line on standard input, one answer per line on standard output.

A request has a script, the name of its function and the arguments; the answer has the results or an error. Scripts get
Lua 5.1 with `table`, `string`, `math`, `os.time`, `os.date` and `require("kube")`, and nothing of the machine. Each
call has a new Lua state, a limit of memory, and a limit of processor time that ends the process.
"""

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from lupa import lua51

from rota.api import quantities
from rota.federation.customization import lua_values
from rota.federation.interpreters import dependencies, replicas

MEMORY_BYTES: Final = 64 * 1024 * 1024
_PROCESS_BYTES: Final = 2 * 1024 * 1024 * 1024
#: The first byte of compiled Lua, which is not verified before it runs.
_COMPILED: Final = "\x1b"
_UNAVAILABLE: Final = (
    "collectgarbage",
    "dofile",
    "getfenv",
    "getmetatable",
    "load",
    "loadfile",
    "loadstring",
    "module",
    "newproxy",
    "rawequal",
    "rawget",
    "rawset",
    "setfenv",
    "setmetatable",
)
_SANDBOX: Final = """
local functions, unavailable = ...
local kube = {}
for name, call in pairs(functions) do
  kube[name] = function(...) return call(...) end
end
for _, name in pairs(unavailable) do
  _G[name] = function() error(name .. " is not available in interpreter scripts") end
end
local time, date = os.time, os.date
os = {time = function(...) return time(...) end, date = function(...) return date(...) end}
require = function(name)
  if name == "kube" then return kube end
  error("module " .. tostring(name) .. " is not available in interpreter scripts")
end
print = function() end
string.dump = nil
io, debug, package, python, coroutine, gcinfo = nil, nil, nil, nil, nil, nil
"""


class _Refused(Exception):
    """Why a call has no results."""


def main() -> None:
    """Answer requests until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_PROCESS_BYTES, _PROCESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when it ends
    # Whatever writes to standard output by its number must not mix with answers.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line)
        signal.setitimer(signal.ITIMER_PROF, float(request["seconds"]))
        try:
            answer: dict[str, Any] = {"results": _called(request)}
        except (_Refused, lua_values.NotJson) as error:
            answer = {"error": str(error)}
        except lua51.LuaMemoryError:
            answer = {"error": f"the script used more than {MEMORY_BYTES >> 20} MiB of memory"}
        except (lua51.LuaError, UnicodeDecodeError, RecursionError, MemoryError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(msgspec.json.encode(answer) + b"\n")


def _called(request: dict[str, Any]) -> list[Any]:
    if request["script"].startswith(_COMPILED):
        raise _Refused("compiled scripts are not run")
    lua = lua51.LuaRuntime(
        register_eval=False,
        register_builtins=False,
        unpack_returned_tuples=True,
        attribute_filter=_no_attribute,
        max_memory=MEMORY_BYTES,
    )
    functions = {name: call(lua) for name, call in _KUBE.items()}
    prepare = lua.eval("loadstring(...)", _SANDBOX)
    prepare(lua.table_from(functions), lua.table_from(_UNAVAILABLE))
    lua.execute(request["script"])
    function = lua.globals()[request["function"]]
    if function is None:
        raise _Refused(f"the script has no function {request['function']}")
    arguments = [_given(lua, one) for one in request["arguments"]]
    returned = function(*arguments)
    values = list(returned) if isinstance(returned, tuple) else [returned]
    values += [None] * (request["returns"] - len(values))
    references = request["arguments"] if request["like_arguments"] else []
    return [lua_values.resolved(_taken(one), references) for one in values[: request["returns"]]]


def _no_attribute(obj: object, name: object, setting: bool) -> str:
    raise AttributeError("objects of the host have no attributes for scripts")


def _given(lua: Any, value: Any) -> Any:
    value = lua_values.without_nulls(value)
    return lua.table_from(value, recursive=True) if isinstance(value, dict | list) else value


def _taken(value: Any, depth: int = 0) -> Any:
    if depth > 200:
        raise lua_values.NotJson("a table is nested too deeply, or in itself")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return lua_values.number(value)
    if lua51.lua_type(value) == "table":
        entries = [(key, _taken(one, depth + 1)) for key, one in _pairs(value)]
        return lua_values.table(entries)
    raise lua_values.NotJson(f"a {lua51.lua_type(value) or type(value).__name__} is no value of JSON")


def _pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, one in value.items():
        yield (int(key) if isinstance(key, float) and key.is_integer() else key), one


def _plain(value: Any) -> Any:
    """An argument of a function that scripts call."""
    return lua_values.resolved(_taken(value), [])


def _resource_add(lua: Any) -> Callable[..., str]:
    def add(*amounts: Any) -> str:
        total = quantities.from_value(0)
        for place, one in enumerate(filter(None, amounts)):
            amount = quantities.from_wire(one)
            total = amount if place == 0 else total + amount
        return str(total)

    return add


def _pod_requirements(lua: Any) -> Callable[[Any], Any]:
    return lambda template: _given(lua, replicas.requirements(_plain(template).get("spec") or {}) or {})


def _pod_dependencies(lua: Any) -> Callable[..., Any]:
    def find(template: Any, namespace: Any = None) -> Any:
        spec = _plain(template).get("spec") or {}
        return _given(lua, dependencies.of_pod_spec(spec, "default" if namespace is None else str(namespace)))

    return find


def _quantity(lua: Any) -> Callable[[Any], float]:
    def read(text: Any) -> float:
        found = float(quantities.from_wire(text).milli_value()) / 1000 if text else 0.0
        if found < 0:
            raise ValueError(f"{text} is negative")
        return found

    return read


#: The module `kube` of scripts: functions for a Lua state.
_KUBE: Final[dict[str, Callable[[Any], Callable[..., Any]]]] = {
    "resourceAdd": _resource_add,
    "accuratePodRequirements": _pod_requirements,
    "getPodDependencies": _pod_dependencies,
    "getResourceQuantity": _quantity,
}


if __name__ == "__main__":
    main()
