"""The strategies of webhook configurations: defaults, and validation of each webhook."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import fields, names, webhook_clients
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy
from rota.apiserver.strategies.policy_expressions import compile_conditions

Found: TypeAlias = list[fields.FieldError]

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_VERSIONS: Final = ("v1", "v1beta1")
_MOST_CONDITIONS: Final = 64
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_WEBHOOKS: Final = fields.Path("webhooks")
_DEFAULTS: Final[Mapping[str, Any]] = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10}


class WebhookStrategy(GenericStrategy):
    """ValidatingWebhookConfigurations and MutatingWebhookConfigurations."""

    counts_generations = True
    demands_required_fields = False

    def __init__(self, *, mutating: bool) -> None:
        self._mutating: Final = mutating

    def default(self, obj: Object, /) -> None:
        """A webhook matches everything that its rules match, and fails closed."""
        for one in obj.get("webhooks") or ():
            for name, value in _DEFAULTS.items():
                one.setdefault(name, value)
            one.setdefault("namespaceSelector", {})
            one.setdefault("objectSelector", {})
            if self._mutating:
                one.setdefault("reinvocationPolicy", "Never")
            for rule in one.get("rules") or ():
                rule.setdefault("scope", "*")
            service = (one.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """Every webhook."""
        return super().validate_create(obj, at) + _validate(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """Every webhook; match conditions that stay as they are were valid when they were stored."""
        return super().validate_update(new, old, at) + _validate(new, conditions=_conditions(new) != _conditions(old))


def _conditions(obj: Object) -> list[Any]:
    return [one.get("matchConditions") for one in obj.get("webhooks") or ()]


def _validate(obj: Object, *, conditions: bool = True) -> Found:
    found: Found = []
    seen: set[str] = set()
    for position, one in enumerate(obj.get("webhooks") or ()):
        path, name = _WEBHOOKS.index(position), one.get("name") or ""
        found += _validate_webhook(one, path)
        if conditions:
            found += _validate_conditions(one.get("matchConditions") or (), path.child("matchConditions"))
        found += _validate_versions(one.get("admissionReviewVersions") or (), path.child("admissionReviewVersions"))
        if name in seen:
            found.append(fields.duplicate(path.child("name"), name))
        seen.add(name)
    return found


def _validate_webhook(one: Mapping[str, Any], path: fields.Path) -> Found:
    name = one.get("name") or ""
    found = _qualified(name, path.child("name"))
    for position, rule in enumerate(one.get("rules") or ()):
        found += _validate_rule(rule, path.child("rules").index(position))
    found += _choice(one, "failurePolicy", ("Fail", "Ignore"), path)
    found += _choice(one, "matchPolicy", ("Equivalent", "Exact"), path)
    if one.get("sideEffects") is None:
        why = f"must specify one of {', '.join(_SIDE_EFFECTS)}"
        found.append(fields.required(path.child("sideEffects"), why))
    else:
        found += _choice(one, "sideEffects", _SIDE_EFFECTS, path)
    if not 1 <= one.get("timeoutSeconds", 10) <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        found.append(fields.invalid(path.child("timeoutSeconds"), one["timeoutSeconds"], why))
    for selector in ("namespaceSelector", "objectSelector"):
        found += checks.label_selector(one.get(selector), path.child(selector))
    found += _choice(one, "reinvocationPolicy", ("IfNeeded", "Never"), path)
    return found + webhook_clients.validate(one.get("clientConfig") or {}, path.child("clientConfig"))


def _validate_conditions(conditions: Sequence[Mapping[str, Any]], path: fields.Path) -> Found:
    found: Found = []
    if len(conditions) > _MOST_CONDITIONS:
        found.append(fields.too_many(path, len(conditions), _MOST_CONDITIONS))
    _, wrong = compile_conditions(conditions, path, params=False)
    found += wrong
    seen: set[str] = set()
    for number, one in enumerate(conditions):
        name = one.get("name") or ""
        if name and name in seen:
            found.append(fields.duplicate(path.index(number).child("name"), name))
        seen.add(name)
    return found


def _validate_versions(versions: Sequence[str], path: fields.Path) -> Found:
    accepted = ", ".join(_VERSIONS)
    if not versions:
        return [fields.required(path, f"must specify one of {accepted}")]
    found: Found = []
    for number, one in enumerate(versions):
        if one in versions[:number]:
            found.append(fields.invalid(path.index(number), one, "duplicate version"))
            continue
        found += [fields.invalid(path.index(number), one, why) for why in names.check_dns1035_label(one)]
    if not {*versions} & {*_VERSIONS}:
        found.append(fields.invalid(path, list(versions), f"must include at least one of {accepted}"))
    return found


def _qualified(name: str, path: fields.Path) -> Found:
    if not name:
        return [fields.required(path)]
    found = checks.messages(names.check_dns1123_subdomain(name), name, path)
    if not found and name.count(".") < 2:
        found.append(fields.invalid(path, name, "should be a domain with at least three segments separated by dots"))
    return found


def _validate_rule(rule: Mapping[str, Any], path: fields.Path) -> Found:
    found: Found = []
    operations = rule.get("operations") or ()
    if not operations:
        found.append(fields.required(path.child("operations")))
    if len(operations) > 1 and "*" in operations:
        why = "if '*' is present, must not specify other operations"
        found.append(fields.invalid(path.child("operations"), list(operations), why))
    for position, one in enumerate(operations):
        if one not in _OPERATIONS:
            found.append(fields.not_supported(path.child("operations").index(position), one, _OPERATIONS))
    for name in ("apiGroups", "apiVersions", "resources"):
        values = rule.get(name) or ()
        if not values:
            found.append(fields.required(path.child(name)))
        if name != "apiGroups":
            for position, one in enumerate(values):
                if not one:
                    found.append(fields.required(path.child(name).index(position)))
    return found + _choice(rule, "scope", ("*", "Cluster", "Namespaced"), path)


def _choice(one: Mapping[str, Any], name: str, supported: tuple[str, ...], path: fields.Path) -> Found:
    value = one.get(name)
    return [] if value is None or value in supported else [fields.not_supported(path.child(name), value, supported)]
