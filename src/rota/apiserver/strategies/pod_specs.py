"""Validation of the spec of a pod or a pod template. Pure.

Containers and placement have their own modules; this has the rest, and combines them. Mirrors `ValidatePodSpec` of
Kubernetes 1.33 for common mistakes.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.api import fields, names, quantities
from rota.apiserver.strategies import checks, metadata, pod_containers, pod_placement

Found: TypeAlias = list[fields.FieldError]

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_FILE_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
#: Kernel parameters of the IPC namespace, besides those below `fs.mqueue`.
_IPC_SYSCTLS: Final = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shm", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "msg", "msgmax", "msgmnb", "msgmni")
)
#: Required fields of common volume sources.
_DEMANDED: Final = {
    "hostPath": "path",
    "secret": "secretName",
    "configMap": "name",
    "persistentVolumeClaim": "claimName",
    "csi": "driver",
}


def validate(spec: Mapping[str, Any], path: fields.Path) -> Found:
    """All errors of a spec."""
    volumes, found = _validate_volumes(spec.get("volumes") or (), path.child("volumes"))
    found += pod_containers.validate(spec, path, volumes=volumes)
    found += _validate_host_ports(spec, path.child("containers"))
    found += checks.one_of(spec.get("restartPolicy"), _RESTART_POLICIES, path.child("restartPolicy"))
    found += checks.one_of(spec.get("dnsPolicy"), _DNS_POLICIES, path.child("dnsPolicy"))
    found += _validate_sysctls(spec, path.child("securityContext", "sysctls"))
    found += pod_placement.validate(spec, path)
    found += _validate_host_users(spec, path)
    for name in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        value = spec.get(name)
        if value:
            found += checks.messages(names.check_dns1123_subdomain(value), value, path.child(name))
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            found += checks.dns_label(spec[name], path.child(name))
    if spec.get("activeDeadlineSeconds") is not None:
        deadline = path.child("activeDeadlineSeconds")
        found += checks.in_range(spec["activeDeadlineSeconds"], 1, checks.MAX_INT32, deadline)
    if spec.get("preemptionPolicy") is not None:
        found += checks.one_of(spec["preemptionPolicy"], _PREEMPTION_POLICIES, path.child("preemptionPolicy"))
    for name, quantity in (spec.get("overhead") or {}).items():
        if quantities.from_wire(quantity).nanos < 0:
            found.append(fields.invalid(path.child("overhead").key(name), quantity, checks.NOT_NEGATIVE))
    for position, gate in enumerate(spec.get("readinessGates") or ()):
        at = path.child("readinessGates").index(position).child("conditionType")
        found += checks.label_key(gate.get("conditionType", ""), at)
    return found


def _validate_host_ports(spec: Mapping[str, Any], path: fields.Path) -> Found:
    """A container in the machine's network has the ports that it opens there; pods without one get it by default."""
    found: Found = []
    for number, container in enumerate(spec.get("containers") or () if spec.get("hostNetwork") else ()):
        for position, one in enumerate(container.get("ports") or ()):
            port = one.get("hostPort") or 0
            if port and port != one.get("containerPort"):
                at = path.index(number).child("ports").index(position).child("hostPort")
                found.append(fields.invalid(at, port, "must match `containerPort` when `hostNetwork` is true"))
    return found


def _validate_sysctls(spec: Mapping[str, Any], path: fields.Path) -> Found:
    """Kernel parameters of a namespace that the pod shares with its machine would change the machine."""
    found: Found = []
    for position, one in enumerate((spec.get("securityContext") or {}).get("sysctls") or ()):
        name = one.get("name") or ""
        plain = _dotted(name)
        for shared, belongs in (
            ("hostNetwork", plain.startswith("net.")),
            ("hostIPC", plain in _IPC_SYSCTLS or plain.startswith("fs.mqueue.")),
        ):
            if spec.get(shared) and belongs:
                why = f"may not be specified when '{shared}' is true"
                found.append(fields.invalid(path.index(position).child("name"), name, why))
    return found


def _dotted(name: str) -> str:
    """A parameter's name with dots between its parts: the first separator says which of the two separates."""
    first = min((name.find(one) for one in "./" if one in name), default=-1)
    if first < 0 or name[first] == ".":
        return name
    return name.translate({ord("."): "/", ord("/"): "."})


def _validate_host_users(spec: Mapping[str, Any], path: fields.Path) -> Found:
    """A pod with user ids of its own shares no other namespace with its machine."""
    if spec.get("hostUsers") is not False:
        return []
    why = "when `hostUsers` is false"
    # upstream names two of the fields as in Go
    shown = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    found = [fields.forbidden(path.child(name), why) for field, name in shown if spec.get(field)]
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for position, one in enumerate(spec.get(kind) or ()):
            if one.get("volumeDevices"):
                found.append(fields.forbidden(path.child(kind).index(position).child("volumeDevices"), why))
    return found


def validate_template(template: Mapping[str, Any], path: fields.Path) -> Found:
    """A pod template: labels, annotations and the spec."""
    meta = template.get("metadata") or {}
    found = metadata.validate_labels(meta.get("labels") or {}, path.child("labels"))
    found += metadata.validate_annotations(meta.get("annotations") or {}, path.child("annotations"))
    found += validate(template.get("spec") or {}, path.child("spec"))
    if (template.get("spec") or {}).get("ephemeralContainers"):
        why = "ephemeral containers not allowed in pod template"
        found.append(fields.forbidden(path.child("spec", "ephemeralContainers"), why))
    return found


def _validate_volumes(volumes: Any, path: fields.Path) -> tuple[set[str], Found]:
    usable: set[str] = set()
    found: Found = []
    for position, one in enumerate(volumes):
        at, name = path.index(position), one.get("name", "")
        wrong = _validate_source(one, at)
        wrong += checks.dns_label(name, at.child("name")) if name else [fields.required(at.child("name"))]
        if name in usable:
            wrong.append(fields.duplicate(at.child("name"), name))
        if not wrong:
            usable.add(name)
        found += wrong
    return usable, found


def _validate_source(volume: Mapping[str, Any], path: fields.Path) -> Found:
    kinds = [kind for kind, source in volume.items() if kind != "name" and source is not None]
    if not kinds:
        return [fields.required(path, "must specify a volume type")]
    found = [fields.forbidden(path.child(kind), "may not specify more than 1 volume type") for kind in kinds[1:]]
    kind = kinds[0]
    source, at = volume[kind], path.child(kind)
    demanded = _DEMANDED.get(kind)
    if demanded and not source.get(demanded):
        found.append(fields.required(at.child(demanded)))
    if kind == "hostPath" and ".." in source.get("path", "").split("/"):
        found.append(fields.invalid(at.child("path"), source["path"], "must not contain '..'"))
    if kind == "emptyDir" and quantities.from_wire(source.get("sizeLimit")).nanos < 0:
        why = "SizeLimit field must be a valid resource quantity"
        found.append(fields.forbidden(at.child("sizeLimit"), why))
    mode = source.get("defaultMode")
    if mode is not None and not 0 <= mode <= 0o777:
        found.append(fields.invalid(at.child("defaultMode"), mode, _FILE_MODE))
    if kind in {"secret", "configMap", "downwardAPI"}:
        found += _validate_items(kind, source, at)
    if kind == "projected":
        for position, one in enumerate(source.get("sources") or ()):
            for name, part in one.items():
                here = at.child("sources").index(position).child(name)
                if name in {"secret", "configMap", "downwardAPI"} and part:
                    found += _validate_items(name, part, here)
                elif name in {"serviceAccountToken", "clusterTrustBundle"} and (part or {}).get("path"):
                    found += _validate_local_path(part["path"], here.child("path"))
    return found


def _validate_items(kind: str, source: Mapping[str, Any], at: fields.Path) -> list[fields.FieldError]:
    """The files of a volume that is made from an object."""
    found: list[fields.FieldError] = []
    demanded = ("path",) if kind == "downwardAPI" else ("key", "path")
    for position, item in enumerate(source.get("items") or ()):
        here = at.child("items").index(position)
        found += [fields.required(here.child(part)) for part in demanded if not item.get(part)]
        if item.get("path"):
            found += _validate_local_path(item["path"], here.child("path"))
    return found


def _validate_local_path(path: str, at: fields.Path) -> list[fields.FieldError]:
    """A path must stay within its volume, and names that begin with `..` are reserved for the worker."""
    found = []
    if path.startswith("/"):
        found.append(fields.invalid(at, path, "must be a relative path"))
    if ".." in path.split("/"):
        found.append(fields.invalid(at, path, "must not contain '..'"))
    elif path.startswith(".."):
        found.append(fields.invalid(at, path, "must not start with '..'"))
    return found
