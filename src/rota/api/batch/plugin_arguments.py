"""Arguments of a Job's plugins, in the notation of Go's flags: `--port=22`, `--port 22`, `--flag`. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_ROLES: Final[Mapping[str, str | int | bool]] = {"master": "master", "worker": "worker"}
#: The flags of each plugin with Volcano's defaults, whose types are those of the flags. Paths are inside of containers.
FLAGS: Final[Mapping[str, Mapping[str, str | int | bool]]] = {
    "env": {},
    "svc": {"publish-not-ready-addresses": False, "disable-network-policy": False, "inject-hosts-env": True},
    # Volcano's default: the home of root inside of the containers.
    "ssh": {"ssh-key-file-path": "/root/.ssh", "ssh-private-key": "", "ssh-public-key": ""},
    "pytorch": {
        **_ROLES,
        "port": 23456,
        "wait-master-enabled": False,
        "wait-master-timeout": 300,
        "wait-master-image": "busybox:1.36.1",
    },
    "tensorflow": {"ps": "ps", "worker": "worker", "chief": "chief", "evaluator": "evaluator", "port": 2222},
    "mpi": {**_ROLES, "port": 22},
    "ray": {
        "head": "head",
        "worker": "worker",
        "headContainer": "head",
        "workerContainer": "worker",
        "port": 6379,
        "dashboardPort": 8265,
        "clientPort": 10001,
    },
    "hcclrank": dict(_ROLES),
}


class ArgumentError(ValueError):
    """An argument that a plugin does not have, or with a value that is not of its type."""


class Arguments:
    """The arguments of one plugin."""

    def __init__(self, values: Mapping[str, str | int | bool]) -> None:
        self._values: Final = values

    def text(self, name: str) -> str:
        """A text."""
        return str(self._values[name])

    def number(self, name: str) -> int:
        """A number."""
        return int(self._values[name])

    def flag(self, name: str) -> bool:
        """A switch."""
        return bool(self._values[name])


def parse(plugin: str, arguments: Sequence[str]) -> Arguments:
    """Read arguments; `ArgumentError` names one that is wrong."""
    known, found, rest = FLAGS[plugin], dict(FLAGS[plugin]), list(arguments)
    while rest:
        argument = rest.pop(0)
        name, given, value = argument.lstrip("-").partition("=")
        if not argument.startswith("-") or name not in known:
            flags = ", ".join(f"--{one}" for one in known) or "none"
            raise ArgumentError(f"{plugin} has no argument {argument!r}; it has {flags}")
        if not given:
            if isinstance(known[name], bool):
                value = "true"
            elif rest:
                value = rest.pop(0)
            else:
                raise ArgumentError(f"{argument} needs a value")
        found[name] = _typed(name, value, known[name])
    return Arguments(found)


def _typed(name: str, value: str, default: str | int | bool) -> str | int | bool:
    if isinstance(default, bool):
        if value in _TRUE or value in _FALSE:
            return value in _TRUE
        raise ArgumentError(f"--{name} must be true or false, not {value!r}")
    if isinstance(default, int):
        if value.isdigit():
            return int(value)
        raise ArgumentError(f"--{name} must be a number, not {value!r}")
    return value
