"""The strategies of ValidatingAdmissionPolicies and their bindings: defaults, and expressions that must compile."""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import fields, names
from rota.api.fields import FieldError, Path
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import generic
from rota.apiserver.strategies.policy_expressions import PolicyCompiler

_SPEC: Final = Path("spec")
_ACTIONS: Final = ("Audit", "Deny", "Warn")


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
    """Policies."""

    counts_generations = True

    def default(self, obj: Object, /) -> None:
        """Fail closed; match equivalent versions."""
        spec = obj.setdefault("spec", {})
        if spec.get("failurePolicy") is None:
            spec["failurePolicy"] = "Fail"
        _default_matching(spec.get("matchConstraints"))

    def validate_create(self, obj: Object, at: Attributes, /) -> list[FieldError]:
        """Metadata, and expressions."""
        return super().validate_create(obj, at) + _policy_errors(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[FieldError]:
        """Metadata, and expressions if the policy changes."""
        found = super().validate_update(new, old, at)
        return found if at.subresource or new.get("spec") == old.get("spec") else found + _policy_errors(new)


def _policy_errors(policy: Object) -> list[FieldError]:
    compiler = PolicyCompiler(policy)
    compiler.compile()
    spec: Mapping[str, Any] = policy.get("spec") or {}
    found: list[FieldError] = []
    if spec.get("failurePolicy") not in ("Fail", "Ignore"):
        found.append(fields.not_supported(_SPEC.child("failurePolicy"), spec.get("failurePolicy"), ("Fail", "Ignore")))
    if spec.get("matchConstraints") is None:
        found.append(fields.required(_SPEC.child("matchConstraints")))
    elif not spec["matchConstraints"].get("resourceRules"):
        found.append(fields.required(_SPEC.child("matchConstraints", "resourceRules")))
    return found + compiler.errors


class PolicyBindingStrategy(generic.GenericStrategy):
    """Bindings of policies."""

    counts_generations = True

    def default(self, obj: Object, /) -> None:
        """Match equivalent versions."""
        _default_matching((obj.get("spec") or {}).get("matchResources"))

    def validate_create(self, obj: Object, at: Attributes, /) -> list[FieldError]:
        """Metadata, the policy's name, parameters and actions."""
        return super().validate_create(obj, at) + list(_binding_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[FieldError]:
        """Metadata, the policy's name, parameters and actions."""
        return super().validate_update(new, old, at) + list(_binding_errors(new.get("spec") or {}))


def _binding_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    policy = spec.get("policyName") or ""
    found = [fields.required(_SPEC.child("policyName"))] if not policy else []
    found += [
        fields.invalid(_SPEC.child("policyName"), policy, why)
        for why in (names.check_dns1123_subdomain(policy) if policy else ())
    ]
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
    ref = spec.get("paramRef")
    if ref is not None:
        at = _SPEC.child("paramRef")
        if bool(ref.get("name")) == (ref.get("selector") is not None):
            found.append(
                fields.required(at.child("name"), "one of name or selector must be specified")
                if not ref.get("name")
                else fields.forbidden(at.child("name"), "name and selector are mutually exclusive")
            )
        if ref.get("parameterNotFoundAction") not in ("Allow", "Deny"):
            found.append(
                fields.required(at.child("parameterNotFoundAction"))
                if not ref.get("parameterNotFoundAction")
                else fields.not_supported(
                    at.child("parameterNotFoundAction"), ref["parameterNotFoundAction"], ("Deny", "Allow")
                )
            )
    return found
