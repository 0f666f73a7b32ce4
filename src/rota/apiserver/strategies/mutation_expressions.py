"""The expressions of a MutatingAdmissionPolicy: the types by which they describe a change, and their compilation.

An apply configuration is built from `Object{...}`, `Object.spec{...}` and so on. The fields of these types are not
declared: the schema of the changed kind is known only when a request arrives (`mutation_patches` checks it then). A
JSON patch is a list of `JSONPatch{op: ..., path: ..., value: ...}`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import fields
from rota.api.cel import types
from rota.api.cel.declarations import Overload
from rota.api.cel.environment import Environment, Program
from rota.api.cel.types import Type
from rota.api.cel.values import no_overload
from rota.api.fields import Path
from rota.apiserver.strategies.policy_expressions import ConditionCompiler, environment

APPLY: Final = "ApplyConfiguration"
JSON_PATCH: Final = "JSONPatch"
_OBJECT: Final = "Object"
#: Where a mutation of each type has its expression.
_PLACES: Final = {APPLY: "applyConfiguration", JSON_PATCH: "jsonPatch"}
_WANTED: Final = {APPLY: types.object_of(_OBJECT), JSON_PATCH: types.list_of(types.JSON_PATCH)}
_MUTATIONS: Final = Path("spec").child("mutations")
_JSON_PATCH_FIELDS: Final = {"op": types.STRING, "path": types.STRING, "from": types.STRING, "value": types.DYN}
_ESCAPE: Final = "jsonpatch.escapeKey"


class _AnyField(Mapping[str, Type]):
    """The fields of a type that has every field."""

    def __getitem__(self, name: str) -> Type:
        return types.DYN

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1


_ANY_FIELD: Final = _AnyField()


def _fields(name: str) -> Mapping[str, Type] | None:
    if name == types.JSON_PATCH.name:
        return _JSON_PATCH_FIELDS
    return _ANY_FIELD if name == _OBJECT or name.startswith(f"{_OBJECT}.") else None


def _escaped(key: Any) -> str:
    if not isinstance(key, str):
        raise no_overload(key)
    return key.replace("~", "~0").replace("/", "~1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One mutation of a policy."""

    patch_type: str
    program: Program
    #: The expression as it was declared.
    text: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CompiledMutations:
    """The expressions of a policy."""

    conditions: tuple[tuple[str, Program], ...]
    variables: Mapping[str, Program]
    mutations: tuple[Mutation, ...]
    #: Whether it is evaluated again after later changes.
    reinvocable: bool


class MutationCompiler(ConditionCompiler):
    """Compiles a MutatingAdmissionPolicy and collects its errors."""

    def compile(self) -> CompiledMutations:
        """The compiled policy; parts with errors are missing."""
        conditions = self.conditions()
        self.variables()
        if not self.spec.get("mutations"):
            self.errors.append(fields.required(_MUTATIONS, "mutations must contain at least one item"))
        return CompiledMutations(
            conditions=conditions,
            variables=self.programs,
            mutations=tuple(self._mutations()),
            reinvocable=self.spec.get("reinvocationPolicy") == "IfNeeded",
        )

    def _mutations(self) -> Iterator[Mutation]:
        scope = self._scope()
        for number, declared in enumerate(self.spec.get("mutations") or ()):
            path, patch_type = _MUTATIONS.index(number), declared.get("patchType") or ""
            place = _PLACES.get(patch_type)
            if place is None:
                self.errors.append(
                    fields.not_supported(path.child("patchType"), patch_type, tuple(_PLACES))
                    if patch_type
                    else fields.required(path.child("patchType"))
                )
                continue
            given = declared.get(place)
            if given is None:
                self.errors.append(
                    fields.required(path.child(place), f"must be specified when patchType is {patch_type}")
                )
            else:
                yield from self._mutation(scope, patch_type, given.get("expression") or "", path.child(place))
            self.errors += [
                fields.invalid(
                    path.child(other), f"{{{other}}}", f"must not be specified when patchType is {patch_type}"
                )
                for other in _PLACES.values()
                if other != place and declared.get(other) is not None
            ]

    def _mutation(self, scope: Environment, patch_type: str, text: str, path: Path) -> Iterator[Mutation]:
        if not text.strip():
            self.errors.append(fields.required(path.child("expression")))
            return
        program = self.program(scope, text.strip(), path.child("expression"), _WANTED[patch_type])
        if program is not None:
            yield Mutation(patch_type=patch_type, program=program, text=text)

    def _scope(self) -> Environment:
        return environment(
            params=self.params,
            authorizer=True,
            variables=self.types,
            further=_fields,
            declared_functions={
                _ESCAPE: (Overload("string_jsonpatch_escapeKey_string", False, (types.STRING,), types.STRING),)
            },
            functions={_ESCAPE: _escaped},
        )
