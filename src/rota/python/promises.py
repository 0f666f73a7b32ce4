"""Placeholders for values that are known when a pipeline runs: results of steps, parameters, the run itself.

Passing a promise to a task is a dependency. Comparing one gives a `Condition` for `when`. Operations that need the
value itself are refused at once, with what to write instead.
"""

from collections.abc import Iterable
from typing import Final, NoReturn

from rota.python import task_runner


class Condition:
    """A condition that is evaluated when the pipeline runs; combine with `&`, `|` and `~`."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: Final = text

    def __and__(self, other: "Condition") -> "Condition":
        return Condition(f"({self.text}) and ({_condition(other)})")

    def __or__(self, other: "Condition") -> "Condition":
        return Condition(f"({self.text}) or ({_condition(other)})")

    def __invert__(self) -> "Condition":
        return Condition(f"not ({self.text})")

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a condition on what is not there yet is asked when the pipeline runs: "
            "give it to fn.step(when=...), and combine several with & | ~"
        )

    def __repr__(self) -> str:
        return f"<condition {self.text}>"


def _condition(value: object) -> str:
    if not isinstance(value, Condition):
        raise TypeError(f"{value!r} is no condition")
    return value.text


class Promise:
    """A value that is known when the pipeline runs."""

    __slots__ = ("kind", "plan", "proof", "reference", "step")

    def __init__(self, plan: object, reference: str, *, kind: str, step: str = "", proof: str = "") -> None:
        #: The pipeline that it belongs to.
        self.plan: Final = plan
        #: Its name in expressions: `steps.load.outputs.result`.
        self.reference: Final = reference
        #: How the task runner parses it: see `task_runner`.
        self.kind: Final = kind
        #: The step that it comes from; empty for others.
        self.step: Final = step
        #: What an item is verified by, if it is an output of a step: see `task_runner`.
        self.proof: Final = proof

    def __eq__(self, other: object) -> Condition:  # type: ignore[override] # it is asked when the pipeline runs
        return self._compared("==", other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return self._compared("!=", other)

    def __lt__(self, other: object) -> Condition:
        return self._compared("<", other)

    def __le__(self, other: object) -> Condition:
        return self._compared("<=", other)

    def __gt__(self, other: object) -> Condition:
        return self._compared(">", other)

    def __ge__(self, other: object) -> Condition:
        return self._compared(">=", other)

    def is_in(self, others: Iterable[object]) -> Condition:
        """Whether it is one of these."""
        return Condition(f"{self.reference} in [{', '.join(self._written(one) for one in others)}]")

    def _compared(self, operator: str, other: object) -> Condition:
        return Condition(f"{self.reference} {operator} {self._written(other)}")

    def _written(self, other: object) -> str:
        if isinstance(other, Promise):
            return other.reference
        if not task_runner.is_plain(other):
            raise TypeError(f"what is not there yet can be compared with texts and numbers, and not with {other!r}")
        if isinstance(other, str) and self.kind != "value":
            text = other
        else:
            text = task_runner.write(other)
            if isinstance(other, int | float) and not isinstance(other, bool):
                return text
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self._what()}: use fn.step(when=...) for what depends on it")

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self._what()}: use fn.map(...) or fn.each(...) to run a step for each of its items")

    def __str__(self) -> NoReturn:
        raise TypeError(f"{self._what()}: have a step make the text that it belongs into")

    def __format__(self, spec: str) -> NoReturn:
        self.__str__()

    def __getattr__(self, name: str) -> NoReturn:
        # attributes that Python reads to copy, pickle or print an object must behave as usual
        if name.startswith(("__", "_repr", "_ipython")):
            raise AttributeError(name)
        raise AttributeError(f"{self._what()}, and so has no {name}: have a step take it out", name=name, obj=None)

    def __getitem__(self, key: object) -> NoReturn:
        raise TypeError(f"{self._what()}: have a step take {key!r} out of it")

    def _what(self) -> str:
        return f"{self.reference} is not there while the pipeline is written"

    def __repr__(self) -> str:
        return f"<promised {self.reference}>"
