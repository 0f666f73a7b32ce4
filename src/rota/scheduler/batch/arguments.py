"""Arguments of actions and plugins: types, defaults, and errors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api.durations import duration
from rota.scheduler.batch.tasks import truth
from rota.scheduler.config.faults import Fault

#: Reads a value; raises ValueError with what was expected.
Reader = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, or all whose names begin with a prefix."""

    read: Reader
    default: Any = None


def integer(value: Any) -> int:
    """Read a whole number, written as a number or as text."""
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise ValueError("expected a whole number") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or int(value) != value:
        raise ValueError("expected a whole number")
    return int(value)


def number(value: Any) -> float:
    """Read a number, written as a number or as text."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise ValueError("expected a number") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("expected a number")
    return float(value)


def boolean(value: Any) -> bool:
    """Read true or false, written as a boolean or as text."""
    read = truth(value) if isinstance(value, str) else value
    if not isinstance(read, bool):
        raise ValueError("expected true or false")
    return read


def text(value: Any) -> str:
    """Read a text."""
    if not isinstance(value, str):
        raise ValueError("expected a text")
    return value


def seconds(value: Any) -> float:
    """Read a duration above zero."""
    read = duration(value) if isinstance(value, str) else None
    if read is None or read <= 0:
        raise ValueError('expected a duration above zero, such as "10m"')
    return read


def mapping(value: Any) -> dict[str, Any]:
    """Read an object."""
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    return value


def read_all(
    given: Mapping[str, Any], known: Mapping[str, Argument], *, path: str
) -> tuple[dict[str, Any], list[Fault]]:
    """Read arguments by their declarations; gives the values, including defaults, and all errors."""
    values = {name: argument.default for name, argument in known.items() if not name.endswith(_PREFIX)}
    faults: list[Fault] = []
    for name, value in given.items():
        argument = known.get(name) or next(
            (each for prefix, each in known.items() if prefix.endswith(_PREFIX) and name.startswith(prefix)), None
        )
        place = f"{path}.{name}"
        if argument is None:
            expected = ", ".join(f"{each}*" if each.endswith(_PREFIX) else each for each in sorted(known))
            faults.append(Fault(place, f"is no argument here; known are {expected}" if known else "takes no arguments"))
            continue
        try:
            values[name] = argument.read(value)
        except ValueError as error:
            faults.append(Fault(place, str(error)))
    return values, faults


_PREFIX: Final = "."
