"""The strategies of webhook configurations: defaults, and validation of each webhook."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.api import fields, names
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy

Found: TypeAlias = list[fields.FieldError]

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
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
        """Every webhook."""
        return super().validate_update(new, old, at) + _validate(new)


def _validate(obj: Object) -> Found:
    found: Found = []
    seen: set[str] = set()
    for position, one in enumerate(obj.get("webhooks") or ()):
        path, name = _WEBHOOKS.index(position), one.get("name") or ""
        found += _validate_webhook(one, path)
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
    client = one.get("clientConfig") or {}
    if (client.get("url") is None) == (client.get("service") is None):
        found.append(fields.required(path.child("clientConfig"), "exactly one of url or service is required"))
    if not one.get("admissionReviewVersions"):
        why = "must specify one of v1, v1beta1"
        found.append(fields.required(path.child("admissionReviewVersions"), why))
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
