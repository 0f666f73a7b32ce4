"""Evaluation of comprehensions: a loop for each macro instead of a generic fold.

The costs of a round are those of the fold that the macro stands for.
"""

from typing import Any, Final, Protocol

from rota.api.cel.frames import Frame, Run
from rota.api.cel.syntax import Fold, Node
from rota.api.cel.values import CostExceeded, EvaluationError, from_key, no_overload, to_key

#: The cost of a round besides predicate and transformation, and of the result.
_ALL: Final = 3
_EXISTS: Final = 4
_COLLECTED: Final = 12


class Translator(Protocol):
    """What translates the parts of a fold."""

    def push(self, name: str, /) -> int:
        """A slot for a local variable."""
        ...

    def pop(self, name: str, /) -> None:
        """The end of a local variable."""
        ...

    def value(self, node: Node, /) -> Run:
        """The function of a node."""
        ...


class Folds:
    """Translates folds."""

    def __init__(self, translator: Translator) -> None:
        self._translator: Final = translator

    def translate(self, node: Fold) -> Run:
        """The function of a fold."""
        translator = self._translator
        if node.macro == "bind":
            initial = translator.value(node.initial)
            place = translator.push(node.accumulator)
            body = translator.value(node.result)
            translator.pop(node.accumulator)
            return _bind(initial, place, body)
        source = translator.value(node.source)
        first = translator.push(node.variable)
        second = translator.push(node.variable2) if node.variable2 else -1
        predicate = translator.value(node.predicate) if node.predicate is not None else None
        transform = translator.value(node.transform) if node.transform is not None else None
        translator.pop(node.variable)
        if node.variable2:
            translator.pop(node.variable2)
        rounds = _Rounds(source, first, second)
        if node.macro in ("all", "exists") and predicate is not None:
            return _quantified(rounds, predicate, decisive=node.macro == "exists")
        if node.macro == "exists_one" and predicate is not None:
            return _exactly_one(rounds, predicate)
        if transform is None:
            raise TypeError(node.macro)
        if node.macro == "map":
            return _collected(rounds, predicate, transform)
        return _inserted(rounds, predicate, transform, merge=node.macro == "merge")


class _Rounds:
    """The rounds of a comprehension: the list of what is bound to its variables."""

    __slots__ = ("first", "second", "source")

    def __init__(self, source: Run, first: int, second: int) -> None:
        self.source: Final = source
        self.first: Final = first
        self.second: Final = second

    def pairs(self, frame: Frame) -> list[tuple[Any, Any]]:
        source = self.source(frame)
        if isinstance(source, list):
            return list(enumerate(source)) if self.second >= 0 else [(one, None) for one in source]
        if isinstance(source, dict):
            return [(from_key(key), value) for key, value in source.items()]
        raise no_overload(source)

    def bind(self, frame: Frame, pair: tuple[Any, Any]) -> None:
        frame.slots[self.first] = pair[0]
        if self.second >= 0:
            frame.slots[self.second] = pair[1]


def _bind(initial: Run, place: int, body: Run) -> Run:
    def bind(frame: Frame) -> Any:
        frame.charge(10)
        frame.slots[place] = initial(frame)
        return body(frame)

    return bind


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise no_overload(value)
    return value


def _quantified(rounds: _Rounds, predicate: Run, *, decisive: bool) -> Run:
    cost = _EXISTS if decisive else _ALL

    def quantified(frame: Frame) -> bool:
        failure: EvaluationError | None = None
        for pair in rounds.pairs(frame):
            frame.charge(cost)
            rounds.bind(frame, pair)
            try:
                if _truth(predicate(frame)) is decisive:
                    return decisive
            except CostExceeded:
                raise
            except EvaluationError as error:
                failure = failure or error
        frame.charge(1)
        if failure is not None:
            raise failure
        return not decisive

    return quantified


def _exactly_one(rounds: _Rounds, predicate: Run) -> Run:
    def exactly_one(frame: Frame) -> bool:
        count = 0
        failure: EvaluationError | None = None
        for pair in rounds.pairs(frame):
            rounds.bind(frame, pair)
            try:
                if _truth(predicate(frame)):
                    frame.charge(2)
                    count += 1
            except CostExceeded:
                raise
            except EvaluationError as error:
                # The fold goes on, and each error of a predicate replaces the one before.
                failure = error
        frame.charge(2)
        if failure is not None:
            raise failure
        return count == 1

    return exactly_one


def _collected(rounds: _Rounds, predicate: Run | None, transform: Run) -> Run:
    def collected(frame: Frame) -> list[Any]:
        found = []
        failure: EvaluationError | None = None
        frame.charge(11)
        for pair in rounds.pairs(frame):
            rounds.bind(frame, pair)
            try:
                if predicate is not None and not _truth(predicate(frame)):
                    continue
            except CostExceeded:
                raise
            except EvaluationError as error:
                failure = error
                continue
            frame.charge(_COLLECTED)
            if failure is None:
                found.append(transform(frame))
        if failure is not None:
            raise failure
        return found

    return collected


def _inserted(rounds: _Rounds, predicate: Run | None, transform: Run, *, merge: bool) -> Run:
    def inserted(frame: Frame) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        frame.charge(31)
        for pair in rounds.pairs(frame):
            rounds.bind(frame, pair)
            if predicate is not None and not _truth(predicate(frame)):
                continue
            frame.charge(3)
            value = transform(frame)
            if merge and not isinstance(value, dict):
                raise no_overload(value)
            for key, each in value.items() if merge else [(to_key(pair[0]), value)]:
                if key in found:
                    raise EvaluationError(f"insert failed: key {from_key(key)} already exists")
                found[key] = each
        return found

    return inserted
