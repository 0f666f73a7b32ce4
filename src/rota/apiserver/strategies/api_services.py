"""The strategy of APIServices: defaults and validation."""

import base64
from typing import Any, Final

from rota.api import fields, names
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies.generic import GenericStrategy

_SPEC: Final = fields.Path("spec")
_MOST_GROUP_PRIORITY: Final = 20_000
_MOST_VERSION_PRIORITY: Final = 1000
_MOST_PORT: Final = 65535
_CORE_ONLY: Final = "only v1 may have an empty group and it better be legacy kube"


class ApiServiceStrategy(GenericStrategy):
    """An APIService names the server of a group and version; without a Service it is this server."""

    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """The port of the Service."""
        service = (obj.get("spec") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata and the spec."""
        return super().validate_create(obj, at) + _validate(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata and the spec; the status is not validated."""
        found = super().validate_update(new, old, at)
        return found if at.subresource else found + _validate(new)


def _validate(obj: Object) -> list[fields.FieldError]:
    spec = obj.get("spec") or {}
    group, version = spec.get("group") or "", spec.get("version") or ""
    required = f"{version}.{group}"
    found: list[fields.FieldError] = []
    if obj["metadata"].get("name") != required:
        path = fields.Path("metadata").child("name")
        why = f'must be `spec.version+"."+spec.group`: "{required}"'
        found.append(fields.invalid(path, obj["metadata"].get("name"), why))
    if group:
        wrong = names.check_dns1123_subdomain(group)
        found += [fields.invalid(_SPEC.child("group"), group, ",".join(wrong))] if wrong else []
    elif version != "v1":
        found.append(fields.required(_SPEC.child("group"), _CORE_ONLY))
    wrong = names.check_dns1035_label(version)
    found += [fields.invalid(_SPEC.child("version"), version, ",".join(wrong))] if wrong else []
    found += _priority(spec, "groupPriorityMinimum", _MOST_GROUP_PRIORITY)
    found += _priority(spec, "versionPriority", _MOST_VERSION_PRIORITY)
    return found + _server_errors(spec)


def _priority(spec: Object, name: str, most: int) -> list[fields.FieldError]:
    value = spec.get(name) or 0
    why = f"must be positive and less than {most}"
    return [] if 0 < value <= most else [fields.invalid(_SPEC.child(name), value, why)]


def _server_errors(spec: Object) -> list[fields.FieldError]:
    service: dict[str, Any] | None = spec.get("service")
    bundle, insecure = spec.get("caBundle"), spec.get("insecureSkipTLSVerify")
    found: list[fields.FieldError] = []
    if service is None:
        if bundle:
            shown = f"{len(base64.b64decode(bundle))} bytes"
            found.append(fields.invalid(_SPEC.child("caBundle"), shown, "local APIServices may not have a caBundle"))
        if insecure:
            why = "local APIServices may not have insecureSkipTLSVerify"
            found.append(fields.invalid(_SPEC.child("insecureSkipTLSVerify"), True, why))
        return found
    path = _SPEC.child("service")
    found += [fields.required(path.child(name)) for name in ("namespace", "name") if not service.get(name)]
    port = service.get("port", 443)
    if not 1 <= port <= _MOST_PORT:
        why = f"port is not valid: must be between 1 and {_MOST_PORT}, inclusive"
        found.append(fields.invalid(path.child("port"), port, why))
    if insecure and bundle:
        why = "may not be true if caBundle is present"
        found.append(fields.invalid(_SPEC.child("insecureSkipTLSVerify"), True, why))
    return found
