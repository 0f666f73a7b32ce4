"""Validation of containers: names, images, ports, environment, resources, probes. Pure.

Mirrors the container part of `pkg/apis/core/validation/validation.go` of Kubernetes 1.33.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import fields, names, resources
from rota.apiserver.strategies import checks

Container: TypeAlias = Mapping[str, Any]
Found: TypeAlias = list[fields.FieldError]

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_ONLY_LASTING: Final = "may not be set for init containers without restartPolicy=Always"
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def validate(spec: Mapping[str, Any], path: fields.Path, *, volumes: Collection[str]) -> Found:
    """All errors of the containers of a pod's spec; `volumes` are the names that can be mounted."""
    ordinary, initial = spec.get("containers") or [], spec.get("initContainers") or []
    found: Found = []
    if not ordinary:
        found.append(fields.required(path.child("containers")))
    seen: set[str] = set()
    for position, one in enumerate(ordinary):
        at = path.child("containers").index(position)
        found += _validate_any(one, at, volumes) + _unique(one, at, seen) + _validate_probes(one, at)
        if one.get("restartPolicy") is not None:
            found.append(fields.forbidden(at.child("restartPolicy"), "may not be set for non-init containers"))
    found += _port_conflicts(ordinary, path.child("containers"))
    for position, one in enumerate(initial):
        at = path.child("initContainers").index(position)
        found += _validate_any(one, at, volumes) + _unique(one, at, seen)
        policy = one.get("restartPolicy")
        if policy is not None and policy != "Always":
            found.append(fields.not_supported(at.child("restartPolicy"), policy, ["Always"]))
        if policy == "Always":
            found += _validate_probes(one, at)
        else:
            refused = [name for name in ("lifecycle", *_PROBES) if one.get(name) is not None]
            found += [fields.forbidden(at.child(name), _ONLY_LASTING) for name in refused]
        found += _port_conflicts([one], path.child("initContainers"))
    return found


def validate_resources(wanted: Mapping[str, Any] | None, path: fields.Path) -> Found:
    """Requests and limits."""
    limits, requests = (wanted or {}).get("limits") or {}, (wanted or {}).get("requests") or {}
    found: Found = []
    for name, quantity in limits.items():
        found += _validate_quantity(name, quantity, path.child("limits").key(name))
    for name, quantity in requests.items():
        found += _validate_quantity(name, quantity, path.child("requests").key(name))
        limit, overcommits = limits.get(name), name in _STANDARD
        if limit is None:
            if not overcommits:
                why = "Limit must be set for non overcommitable resources"
                found.append(fields.required(path.child("limits"), why))
            continue
        amount, most = checks.quantity(quantity), checks.quantity(limit)
        if amount != most and not overcommits:
            why = f"must be equal to {name} limit of {most}"
            found.append(fields.invalid(path.child("requests"), str(amount), why))
        elif amount > most:
            why = f"must be less than or equal to {name} limit of {most}"
            found.append(fields.invalid(path.child("requests"), str(amount), why))
    named = {*limits, *requests}
    if any(name.startswith("hugepages-") for name in named) and not named & {resources.CPU, resources.MEMORY}:
        found.append(fields.forbidden(path, "HugePages require cpu or memory"))
    return found


def validate_image_spaces(spec: Mapping[str, Any], path: fields.Path) -> Found:
    """Whitespace around an image's name, which a template may have and a pod may not."""
    return [
        fields.invalid(
            path.child(kind).index(position).child("image"),
            one["image"],
            "must not have leading or trailing whitespace",
        )
        for kind in ("containers", "initContainers")
        for position, one in enumerate(spec.get(kind) or ())
        if one.get("image", "") != one.get("image", "").strip()
    ]


def _validate_any(one: Container, path: fields.Path, volumes: Collection[str]) -> Found:
    name = one.get("name", "")
    found = checks.dns_label(name, path.child("name")) if name else [fields.required(path.child("name"))]
    if not one.get("image"):
        found.append(fields.required(path.child("image")))
    found += checks.one_of(
        one.get("terminationMessagePolicy"), _MESSAGE_POLICIES, path.child("terminationMessagePolicy")
    )
    found += _validate_ports(one.get("ports") or (), path.child("ports"))
    found += _validate_environment(one.get("env") or (), path.child("env"))
    found += _validate_environment_sources(one.get("envFrom") or (), path.child("envFrom"))
    found += _validate_mounts(one.get("volumeMounts") or (), path.child("volumeMounts"), volumes)
    found += checks.one_of(one.get("imagePullPolicy"), _PULL_POLICIES, path.child("imagePullPolicy"))
    message_path = one.get("terminationMessagePath") or "/"
    if not message_path.startswith("/"):
        # a relative one would depend on the worker's working directory
        found.append(fields.invalid(path.child("terminationMessagePath"), message_path, "must be an absolute path"))
    found += validate_resources(one.get("resources"), path.child("resources"))
    return found


def _unique(one: Container, path: fields.Path, seen: set[str]) -> Found:
    name = one.get("name", "")
    if name and name in seen:
        return [fields.duplicate(path.child("name"), name)]
    seen.add(name)
    return []


def _validate_quantity(name: str, quantity: Any, path: fields.Path) -> Found:
    found = [] if name in _STANDARD else checks.label_key(name, path)
    if not found and "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        found += [
            fields.invalid(path, name, "must be a standard resource type or fully qualified"),
            fields.invalid(path, name, "must be a standard resource for containers"),
        ]
    amount = checks.quantity(quantity)
    if amount.nanos < 0:
        found.append(fields.invalid(path, str(amount), checks.NOT_NEGATIVE))
    elif resources.is_scalar(name) and amount.nanos % 10**9:
        found.append(fields.invalid(path, str(amount), "must be an integer"))
    return found


def _validate_ports(ports: Sequence[Mapping[str, Any]], path: fields.Path) -> Found:
    found: Found = []
    seen: set[str] = set()
    for position, one in enumerate(ports):
        at, name = path.index(position), one.get("name", "")
        if name:
            wrong = checks.port_name(name, at.child("name"))
            found += wrong or ([fields.duplicate(at.child("name"), name)] if name in seen else [])
            seen.add(name)
        number = one.get("containerPort") or 0
        at_number = at.child("containerPort")
        found += checks.port_number(number, at_number) if number else [fields.required(at_number)]
        if one.get("hostPort"):
            found += checks.port_number(one["hostPort"], at.child("hostPort"))
        found += checks.one_of(one.get("protocol"), _PROTOCOLS, at.child("protocol"))
    return found


def _port_conflicts(containers: Sequence[Container], path: fields.Path) -> Found:
    """Two containers of one pod that use the same host port."""
    found: Found = []
    seen: set[str] = set()
    for position, one in enumerate(containers):
        for number, port in enumerate(one.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            text = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if text in seen:
                at = path.index(position).child("ports").index(number).child("hostPort")
                found.append(fields.duplicate(at, text))
            seen.add(text)
    return found


def _validate_environment(variables: Sequence[Mapping[str, Any]], path: fields.Path) -> Found:
    found: Found = []
    for position, one in enumerate(variables):
        at, name = path.index(position), one.get("name", "")
        if not name:
            found.append(fields.required(at.child("name")))
        elif "=" in name or not name.isascii() or not name.isprintable():
            why = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            found.append(fields.invalid(at.child("name"), name, why))
        source = one.get("valueFrom")
        if source is not None:
            found += _validate_value_source(source, at.child("valueFrom"), has_value=bool(one.get("value")))
    return found


def _validate_value_source(source: Mapping[str, Any], path: fields.Path, *, has_value: bool) -> Found:
    given = [name for name in _SOURCES if source.get(name) is not None]
    found: Found = []
    for name in ("configMapKeyRef", "secretKeyRef"):
        reference = source.get(name)
        if reference is None:
            continue
        found += checks.messages(
            names.check_dns1123_subdomain(reference.get("name", "")),
            reference.get("name", ""),
            path.child(name, "name"),
        )
        key = reference.get("key", "")
        at_key = path.child(name, "key")
        found += checks.messages(names.check_config_key(key), key, at_key) if key else [fields.required(at_key)]
    if source.get("fieldRef") is not None and not source["fieldRef"].get("fieldPath"):
        found.append(fields.required(path.child("fieldRef", "fieldPath")))
    if source.get("resourceFieldRef") is not None and not source["resourceFieldRef"].get("resource"):
        found.append(fields.required(path.child("resourceFieldRef", "resource")))
    if not given:
        why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        found.append(fields.invalid(path, "", why))
    elif has_value:
        found.append(fields.invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        found.append(fields.invalid(path, "", "may not have more than one field specified at a time"))
    return found


def _validate_environment_sources(sources: Sequence[Mapping[str, Any]], path: fields.Path) -> Found:
    found: Found = []
    for position, one in enumerate(sources):
        at = path.index(position)
        given = [name for name in ("configMapRef", "secretRef") if one.get(name) is not None]
        found += [fields.required(at.child(name, "name")) for name in given if not one[name].get("name")]
        if not given:
            found.append(fields.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            found.append(fields.invalid(at, "", "may not have more than one field specified at a time"))
    return found


def _validate_mounts(mounts: Sequence[Mapping[str, Any]], path: fields.Path, volumes: Collection[str]) -> Found:
    found: Found = []
    seen: set[str] = set()
    for position, one in enumerate(mounts):
        at, name, where = path.index(position), one.get("name", ""), one.get("mountPath", "")
        if not name:
            found.append(fields.required(at.child("name")))
        if name not in volumes:
            found.append(fields.not_found(at.child("name"), name))
        if not where:
            found.append(fields.required(at.child("mountPath")))
        if where in seen:
            found.append(fields.invalid(at.child("mountPath"), where, "must be unique"))
        seen.add(where)
        for part in ("subPath", "subPathExpr"):
            found += _validate_descending(one.get(part, ""), path.child(part))
    return found


def _validate_descending(text: str, path: fields.Path) -> Found:
    found = [fields.invalid(path, text, "must be a relative path")] if text.startswith("/") else []
    if ".." in text.split("/"):
        found.append(fields.invalid(path, text, "must not contain '..'"))
    return found


def _validate_probes(one: Container, path: fields.Path) -> Found:
    found: Found = []
    for name in _PROBES:
        probe, at = one.get(name), path.child(name)
        if probe is None:
            continue
        found += _validate_handler(probe, at)
        for part in (
            "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
        ):  # fmt: skip
            found += checks.not_negative(probe.get(part), at.child(part))
        if name != "readinessProbe" and probe.get("successThreshold") != 1:
            found.append(fields.invalid(at.child("successThreshold"), probe.get("successThreshold", 0), "must be 1"))
    for hook, handler in (one.get("lifecycle") or {}).items():
        if isinstance(handler, dict):
            found += _validate_handler(handler, path.child("lifecycle", hook))
    return found


def _validate_handler(handler: Mapping[str, Any], path: fields.Path) -> Found:
    given = [name for name in _HANDLERS if handler.get(name) is not None]
    if not given:
        return [fields.required(path, "must specify a handler type")]
    found = [fields.forbidden(path.child(name), "may not specify more than 1 handler type") for name in given[1:]]
    kind, at = given[0], path.child(given[0])
    action = handler[kind]
    if kind == "exec" and not action.get("command"):
        found.append(fields.required(at.child("command")))
    if kind in {"httpGet", "tcpSocket", "grpc"}:
        found += checks.port(action.get("port"), at.child("port"))
    if kind == "httpGet":
        found += checks.one_of(action.get("scheme"), ("HTTP", "HTTPS"), at.child("scheme"))
    return found
