"""Compiles the rules (`x-kubernetes-validations`) of one node of a schema."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api.cel import types
from rota.api.cel.environment import CompileError, Environment, InstantiationError, Program
from rota.api.cel.types import Type
from rota.apiserver.crd import field_paths
from rota.apiserver.crd.rule_types import SELF_TYPE, Declared, size_at, typed
from rota.apiserver.crd.structure import JsonSchema


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Rule:
    """A compiled rule, or why it does not compile."""

    declared: Mapping[str, Any]
    program: Program | None = None
    message: Program | None = None
    #: The path below the node that errors name; empty for the node itself.
    field_path: str = ""
    error: str = ""
    message_error: str = ""
    worst_cost: int = 0
    worst_message_cost: int = 0

    @property
    def uses_old(self) -> bool:
        """Whether it is a transition rule."""
        return self.program is not None and "oldSelf" in self.program.used

    @property
    def optional_old(self) -> bool:
        """Whether it also runs when there is no old value."""
        return self.declared.get("optionalOldSelf") is True

    @property
    def shown(self) -> str:
        """How messages name the rule."""
        return (self.declared.get("message") or self.declared.get("rule") or "").strip()


class RuleCompiler:
    """Compiles rules over one type."""

    def __init__(self, declared: Declared) -> None:
        self._declared: Final = declared
        objects: dict[str, Mapping[str, Type]] = {}
        own = typed(declared, SELF_TYPE, objects)
        self._plain: Final = Environment({"self": own, "oldSelf": own}, objects.get)
        self._optional: Final = Environment({"self": own, "oldSelf": types.optional_of(own)}, objects.get)

    def compile(self, declared: Mapping[str, Any], schema: JsonSchema) -> Rule:
        """Compile a rule; empty rules have no program."""
        text = declared.get("rule") or ""
        if not text.strip():
            return Rule(declared=declared)
        environment = self._optional if declared.get("optionalOldSelf") is True else self._plain
        try:
            program = environment.compile(text)
        except InstantiationError as error:
            return Rule(declared=declared, error=f"program instantiation failed: {error}")
        except CompileError as error:
            return Rule(declared=declared, error=f"compilation failed: {error}")
        if program.type != types.BOOL:
            return Rule(declared=declared, error="cel expression must evaluate to a bool")
        message, message_error = self._message(environment, declared.get("messageExpression") or "")
        field_path = ""
        if not message_error and declared.get("fieldPath"):
            try:
                field_path = field_paths.read(declared["fieldPath"], schema)
            except ValueError:
                field_path = ""
        return Rule(
            declared=declared,
            program=program,
            message=message,
            message_error=message_error,
            field_path=field_path,
            worst_cost=program.worst_cost(self._size),
            worst_message_cost=message.worst_cost(self._size) if message is not None else 0,
        )

    def _size(self, path: Sequence[str]) -> Any:
        return size_at(self._declared, path)

    @staticmethod
    def _message(environment: Environment, text: str) -> tuple[Program | None, str]:
        if not text:
            return None, ""
        try:
            program = environment.compile(text)
        except InstantiationError as error:
            return None, f"messageExpression instantiation failed: {error}"
        except CompileError as error:
            return None, f"messageExpression compilation failed: {error}"
        if program.type != types.STRING:
            return None, "messageExpression must evaluate to a string"
        return program, ""
