"""Rules in Python, from packages with an entry point in the group `rota.interpreters`.

An entry point is an object with `kind`, an (apiVersion, kind), and any of the methods in `METHODS`. Methods take and
return wire objects, must not change their arguments, and run on the event loop: they compute and do not wait.
"""

import importlib.metadata
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rota.federation.customization.operations import CannotInterpret, Found, Operation, Question
from rota.kit import errors

GROUP: Final = "rota.interpreters"
#: By operation: the method, and which parts of a question it takes.
METHODS: Final[Mapping[Operation, tuple[str, tuple[str, ...]]]] = {
    Operation.REPLICAS: ("replicas", ("object",)),
    Operation.COMPONENTS: ("components", ("object",)),
    Operation.REVISION: ("revised", ("object", "replicas")),
    Operation.RETENTION: ("retained", ("object", "observed")),
    Operation.AGGREGATION: ("aggregated", ("object", "items")),
    Operation.DEPENDENCIES: ("dependencies", ("object",)),
    Operation.STATUS: ("status", ("object",)),
    Operation.HEALTH: ("healthy", ("object",)),
}


def load() -> list[Any]:
    """The rules of all installed packages."""
    found = []
    for one in importlib.metadata.entry_points(group=GROUP):
        try:
            rule = one.load()
        except Exception as error:
            raise errors.UserError(
                f"the interpreter {one.name} cannot be loaded: {error}", "fix or remove it"
            ) from error
        if not isinstance(getattr(rule, "kind", None), tuple) or len(rule.kind) != 2:
            raise errors.UserError(f"the interpreter {one.name} has no kind", "set kind = (apiVersion, kind)")
        found.append(rule)
    return found


class PythonRules:
    """A `Source` of rules in Python."""

    def __init__(self, rules: Iterable[Any]) -> None:
        self._rules: Final = {tuple(rule.kind): rule for rule in rules}

    async def ask(self, question: Question, /) -> Found | None:
        """See `Source.ask`."""
        rule = self._rules.get(question.kind)
        name, parts = METHODS[question.operation]
        method = getattr(rule, name, None)
        if method is None:
            return None
        try:
            return Found(method(*(getattr(question, part) for part in parts)))
        except Exception as error:
            raise CannotInterpret(f"{question.where}: {type(error).__name__}: {error}") from error
