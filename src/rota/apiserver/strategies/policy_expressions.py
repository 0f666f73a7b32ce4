"""The expressions of policies: what they see, their compilation, and the errors of both.

Those that change objects are in `mutation_expressions`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import fields, names
from rota.api.cel import types
from rota.api.cel.checker import Fields, Functions
from rota.api.cel.environment import CompileError, Environment, InstantiationError, Program
from rota.api.cel.operators import Function
from rota.api.cel.types import Type
from rota.api.fields import FieldError, Path
from rota.apiserver.interfaces import Object

_SPEC: Final = Path("spec")
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_BOTH: Final = "validations or auditAnnotations must contain at least one item"


_TEXTS: Final = types.list_of(types.STRING)
_KIND: Final = types.object_of("kubernetes.GroupVersionKind")
_RESOURCE: Final = types.object_of("kubernetes.GroupVersionResource")
_USER: Final = types.object_of("kubernetes.UserInfo")
_REQUEST: Final = types.object_of("kubernetes.AdmissionRequest")
_NAMESPACE: Final = types.object_of("kubernetes.Namespace")
VARIABLES: Final = types.object_of("kubernetes.variables")
_OBJECTS: Final[Mapping[str, Mapping[str, Type]]] = {
    _KIND.name: {"group": types.STRING, "version": types.STRING, "kind": types.STRING},
    _RESOURCE.name: {"group": types.STRING, "version": types.STRING, "resource": types.STRING},
    _USER.name: {
        "username": types.STRING, "uid": types.STRING, "groups": _TEXTS, "extra": types.map_of(types.STRING, _TEXTS),
    },
    _REQUEST.name: {
        "kind": _KIND, "resource": _RESOURCE, "subResource": types.STRING, "requestKind": _KIND,
        "requestResource": _RESOURCE, "requestSubResource": types.STRING, "name": types.STRING,
        "namespace": types.STRING, "operation": types.STRING, "userInfo": _USER, "dryRun": types.BOOL,
        "options": types.DYN,
    },
    _NAMESPACE.name: {
        "metadata": types.object_of("kubernetes.NamespaceMetadata"),
        "spec": types.object_of("kubernetes.NamespaceSpec"),
        "status": types.object_of("kubernetes.NamespaceStatus"),
    },
    "kubernetes.NamespaceMetadata": {
        "name": types.STRING, "generateName": types.STRING, "namespace": types.STRING,
        "labels": types.map_of(types.STRING, types.STRING), "annotations": types.map_of(types.STRING, types.STRING),
        "UID": types.STRING, "creationTimestamp": types.TIMESTAMP, "deletionGracePeriodSeconds": types.INT,
        "deletionTimestamp": types.TIMESTAMP, "generation": types.INT, "resourceVersion": types.STRING,
        "finalizers": _TEXTS,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _TEXTS},
    "kubernetes.NamespaceStatus": {"phase": types.STRING},
}  # fmt: skip


#: What expressions see of the metadata of a namespace.
NAMESPACE_FIELDS: Final = frozenset(_OBJECTS["kubernetes.NamespaceMetadata"])


def environment(
    *,
    params: bool,
    authorizer: bool,
    variables: Mapping[str, Type] | None = None,
    further: Fields = lambda _: None,
    declared_functions: Functions | None = None,
    functions: Mapping[str, Function] | None = None,
) -> Environment:
    """What expressions see; `variables` are those that were declared before, `further` finds types of one policy."""
    declared: dict[str, Type] = {
        "object": types.DYN,
        "oldObject": types.DYN,
        "request": _REQUEST,
        "namespaceObject": _NAMESPACE,
    }
    if params:
        declared["params"] = types.DYN
    if authorizer:
        declared["authorizer"] = types.AUTHORIZER
        declared["authorizer.requestResource"] = types.RESOURCE_CHECK
    objects: Mapping[str, Mapping[str, Type]] = _OBJECTS
    if variables is not None:
        declared["variables"] = VARIABLES
        objects = {**_OBJECTS, VARIABLES.name: variables}
    return Environment(
        declared,
        lambda name: objects[name] if name in objects else further(name),
        declared=declared_functions,
        functions=functions,
    )


def compile_expression(
    scope: Environment, text: str, path: Path, *wanted: Type
) -> tuple[Program | None, list[FieldError]]:
    """The program of an expression of one of the wanted types, or its errors."""
    try:
        program = scope.compile(text)
    except InstantiationError as error:
        return None, [fields.invalid(path, text, f"program instantiation failed: {error}")]
    except CompileError as error:
        return None, [fields.invalid(path, text, f"compilation failed: {error}")]
    if not wanted or program.type in wanted:
        return program, []
    if len(wanted) == 1:
        why = f"must evaluate to {wanted[0]} but got {_go_name(program.type)}"
    else:
        why = f"must evaluate to one of [{' '.join(map(_go_name, wanted))}] but got {_go_name(program.type)}"
    return None, [fields.invalid(path, text, why)]


def compile_conditions(
    declared: Sequence[Mapping[str, Any]], path: Path, *, params: bool
) -> tuple[tuple[tuple[str, Program], ...], list[FieldError]]:
    """The match conditions of a policy or webhook by name, and their errors."""
    scope, found, wrong = environment(params=params, authorizer=True), [], list[FieldError]()
    for number, one in enumerate(declared):
        at, name = path.index(number), one.get("name") or ""
        text = (one.get("expression") or "").strip()
        if not text:
            wrong.append(fields.required(at.child("expression")))
        else:
            program, complaints = compile_expression(scope, text, at.child("expression"), types.BOOL)
            wrong += complaints
            if program is not None:
                found.append((name, program))
        if not name:
            wrong.append(fields.required(at.child("name")))
        else:
            wrong += [fields.invalid(at.child("name"), name, why) for why in names.check_label_key(name)]
    return tuple(found), wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """One validation."""

    declared: Mapping[str, Any]
    program: Program
    message: Program | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CompiledPolicy:
    """The expressions of a policy."""

    conditions: tuple[tuple[str, Program], ...]
    variables: Mapping[str, Program]
    validations: tuple[Validation, ...]
    #: Keys and values of audit annotations.
    annotations: tuple[tuple[str, Program], ...]


class ConditionCompiler:
    """Compiles the match conditions and variables of a policy, and collects errors."""

    def __init__(self, policy: Object) -> None:
        self.spec: Final[Mapping[str, Any]] = policy.get("spec") or {}
        self.params: Final = self.spec.get("paramKind") is not None
        self.types: Final[dict[str, Type]] = {}
        self.programs: Final[dict[str, Program]] = {}
        self.errors: list[FieldError] = []

    def environment(self, *, authorizer: bool) -> Environment:
        """What expressions see besides what match conditions do: the variables."""
        return environment(params=self.params, authorizer=authorizer, variables=self.types or None)

    def program(self, scope: Environment, text: str, path: Path, *wanted: Type) -> Program | None:
        """The program of an expression; None if it has errors."""
        program, wrong = compile_expression(scope, text, path, *wanted)
        self.errors += wrong
        return program

    def conditions(self) -> tuple[tuple[str, Program], ...]:
        """The match conditions by name."""
        path = _SPEC.child("matchConditions")
        conditions, wrong = compile_conditions(self.spec.get("matchConditions") or (), path, params=self.params)
        self.errors += wrong
        return conditions

    def variables(self) -> None:
        """Compile the variables; later expressions see them."""
        for number, one in enumerate(self.spec.get("variables") or ()):
            path = _SPEC.child("variables").index(number)
            name, text = one.get("name") or "", one.get("expression") or ""
            if not name.strip():
                self.errors.append(fields.required(path.child("name"), "name is not specified"))
            elif not _IDENTIFIER.fullmatch(name):
                self.errors.append(fields.invalid(path.child("name"), name, "must be a valid CEL identifier"))
            if not text.strip():
                self.errors.append(fields.required(path.child("expression"), "expression is not specified"))
                continue
            scope = environment(params=self.params, authorizer=True, variables=dict(self.types))
            program = self.program(scope, text, path.child("expression"))
            # A variable that does not compile is of any type: its uses are no errors of their own.
            self.types[name] = program.type if program is not None else types.DYN
            if program is not None:
                self.programs[name] = program


class PolicyCompiler(ConditionCompiler):
    """Compiles a ValidatingAdmissionPolicy and collects its errors."""

    def compile(self) -> CompiledPolicy:
        """The compiled policy; parts with errors are missing."""
        conditions = self.conditions()
        self.variables()
        spec = self.spec
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            self.errors += [fields.required(_SPEC.child(one), _BOTH) for one in ("validations", "auditAnnotations")]
        return CompiledPolicy(
            conditions=conditions,
            variables=self.programs,
            validations=tuple(self._validations()),
            annotations=tuple(self._annotations()),
        )

    def _validations(self) -> Iterator[Validation]:
        with_authorizer, without = self.environment(authorizer=True), self.environment(authorizer=False)
        for number, one in enumerate(self.spec.get("validations") or ()):
            path = _SPEC.child("validations").index(number)
            text, expression = one.get("expression") or "", one.get("messageExpression") or ""
            program = message = None
            if not text.strip():
                self.errors.append(fields.required(path.child("expression"), "expression is not specified"))
            else:
                program = self.program(with_authorizer, text, path.child("expression"), types.BOOL)
            if expression.strip():
                message = self.program(without, expression, path.child("messageExpression"), types.STRING)
            elif expression:
                why = "must be non-empty if specified"
                self.errors.append(fields.invalid(path.child("messageExpression"), expression, why))
            self._message_errors(one, path)
            if program is not None:
                yield Validation(declared=one, program=program, message=message)

    def _message_errors(self, declared: Mapping[str, Any], path: Path) -> None:
        text, reason = declared.get("message") or "", declared.get("reason")
        if text and not text.strip():
            self.errors.append(fields.invalid(path.child("message"), text, "must be non-empty if specified"))
        elif "\n" in text.strip() or "\r" in text.strip():
            self.errors.append(fields.invalid(path.child("message"), text, "must not contain line breaks"))
        if reason is not None and reason not in _REASONS:
            self.errors.append(fields.not_supported(path.child("reason"), reason, _REASONS))

    def _annotations(self) -> Iterator[tuple[str, Program]]:
        scope = self.environment(authorizer=False)
        for number, one in enumerate(self.spec.get("auditAnnotations") or ()):
            path = _SPEC.child("auditAnnotations").index(number)
            key, text = one.get("key") or "", one.get("valueExpression") or ""
            if not text.strip():
                self.errors.append(fields.required(path.child("valueExpression"), "valueExpression is not specified"))
                continue
            program = self.program(scope, text, path.child("valueExpression"), types.STRING, types.NULL)
            if program is not None:
                yield key, program


def _go_name(one: Type) -> str:
    return "null_type" if one == types.NULL else str(one)
