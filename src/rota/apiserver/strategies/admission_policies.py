"""The strategies of admission policies and their bindings: defaults, and expressions that must compile."""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import fields, names
from rota.api.fields import FieldError, Path
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import generic
from rota.apiserver.strategies.mutation_expressions import MutationCompiler
from rota.apiserver.strategies.policy_expressions import PolicyCompiler

_SPEC: Final = Path("spec")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_CHANGING: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_REINVOCATIONS: Final = ("IfNeeded", "Never")


def _default_matching(matching: dict[str, Any] | None) -> None:
    if matching is None:
        return
    matching.setdefault("matchPolicy", "Equivalent")
    matching.setdefault("namespaceSelector", {})
    matching.setdefault("objectSelector", {})
    for name in ("resourceRules", "excludeResourceRules"):
        for rule in matching.get(name) or ():
            rule.setdefault("scope", "*")


class PolicyStrategy(generic.GenericStrategy):
    """Policies that validate."""

    counts_generations = True

    def default(self, obj: Object, /) -> None:
        """Fail closed; match equivalent versions."""
        spec = obj.setdefault("spec", {})
        if spec.get("failurePolicy") is None:
            spec["failurePolicy"] = "Fail"
        _default_matching(spec.get("matchConstraints"))

    def validate_create(self, obj: Object, at: Attributes, /) -> list[FieldError]:
        """Metadata, and expressions."""
        return super().validate_create(obj, at) + self._errors(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[FieldError]:
        """Metadata, and expressions if the policy changes."""
        found = super().validate_update(new, old, at)
        return found if at.subresource or new.get("spec") == old.get("spec") else found + self._errors(new)

    def _errors(self, policy: Object) -> list[FieldError]:
        compiler = PolicyCompiler(policy)
        compiler.compile()
        return _spec_errors(compiler.spec) + compiler.errors


class MutatingPolicyStrategy(PolicyStrategy):
    """Policies that change objects."""

    def _errors(self, policy: Object) -> list[FieldError]:
        compiler = MutationCompiler(policy)
        compiler.compile()
        spec = compiler.spec
        found = _spec_errors(spec) + _operation_errors(spec.get("matchConstraints"), _SPEC.child("matchConstraints"))
        found += compiler.errors
        path, reinvocation = _SPEC.child("reinvocationPolicy"), spec.get("reinvocationPolicy")
        if not reinvocation:
            found.append(fields.required(path))
        elif reinvocation not in _REINVOCATIONS:
            found.append(fields.not_supported(path, reinvocation, _REINVOCATIONS))
        return found


def _spec_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    found: list[FieldError] = []
    if spec.get("failurePolicy") not in ("Fail", "Ignore"):
        found.append(fields.not_supported(_SPEC.child("failurePolicy"), spec.get("failurePolicy"), ("Fail", "Ignore")))
    if spec.get("matchConstraints") is None:
        found.append(fields.required(_SPEC.child("matchConstraints")))
    elif not spec["matchConstraints"].get("resourceRules"):
        found.append(fields.required(_SPEC.child("matchConstraints", "resourceRules")))
    return found


def _operation_errors(matching: Mapping[str, Any] | None, path: Path) -> list[FieldError]:
    """Operations of which there is nothing to change."""
    return [
        fields.not_supported(path.child("resourceRules", "operations"), one, _CHANGING)
        for rule in (matching or {}).get("resourceRules") or ()
        for one in rule.get("operations") or ()
        if one not in _CHANGING
    ]


class PolicyBindingStrategy(generic.GenericStrategy):
    """Bindings of policies that validate."""

    counts_generations = True

    def default(self, obj: Object, /) -> None:
        """Match equivalent versions."""
        _default_matching((obj.get("spec") or {}).get("matchResources"))

    def validate_create(self, obj: Object, at: Attributes, /) -> list[FieldError]:
        """Metadata, the policy's name, parameters and actions."""
        return super().validate_create(obj, at) + self._errors(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[FieldError]:
        """Metadata, the policy's name, parameters and actions."""
        return super().validate_update(new, old, at) + self._errors(new.get("spec") or {})

    def _errors(self, spec: Mapping[str, Any]) -> list[FieldError]:
        return _name_errors(spec) + _action_errors(spec) + _param_errors(spec)


class MutatingPolicyBindingStrategy(PolicyBindingStrategy):
    """Bindings of policies that change objects."""

    def _errors(self, spec: Mapping[str, Any]) -> list[FieldError]:
        matching = spec.get("matchResources")
        return _name_errors(spec) + _param_errors(spec) + _operation_errors(matching, _SPEC.child("matchResources"))


def _name_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    path, policy = _SPEC.child("policyName"), spec.get("policyName") or ""
    if not policy:
        return [fields.required(path)]
    return [fields.invalid(path, policy, why) for why in names.check_dns1123_subdomain(policy)]


def _action_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    found: list[FieldError] = []
    path, actions = _SPEC.child("validationActions"), spec.get("validationActions") or []
    if not actions:
        found.append(fields.required(path, "at least one validation action is required"))
    for number, one in enumerate(actions):
        if one not in _ACTIONS:
            found.append(fields.not_supported(path.index(number), one, _ACTIONS))
        if one in actions[:number]:
            found.append(fields.duplicate(path.index(number), one))
    if "Deny" in actions and "Warn" in actions:
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        found.append(fields.invalid(path, actions, why))
    return found


def _param_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    found: list[FieldError] = []
    ref = spec.get("paramRef")
    if ref is not None:
        at = _SPEC.child("paramRef")
        if not ref.get("name") and ref.get("selector") is None:
            found.append(fields.required(at, "one of name or selector must be specified"))
        elif ref.get("name") and ref.get("selector") is not None:
            why = "name and selector are mutually exclusive"
            found += [fields.forbidden(at.child(one), why) for one in ("name", "selector")]
        if ref.get("parameterNotFoundAction") not in ("Allow", "Deny"):
            found.append(
                fields.required(at.child("parameterNotFoundAction"))
                if not ref.get("parameterNotFoundAction")
                else fields.not_supported(
                    at.child("parameterNotFoundAction"), ref["parameterNotFoundAction"], ("Deny", "Allow")
                )
            )
    return found
