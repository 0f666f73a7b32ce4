"""The Pod Security Standards: what the levels `baseline` and `restricted` forbid in a pod, by version.

A check returns a reason and a detail in the words of the stock server, or None. Checks that a later version changed are
listed once for each version.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

Spec = Mapping[str, Any]
#: A reason and a detail.
Violation = tuple[str, str]
Check = Callable[[Mapping[str, str], Spec], Violation | None]

LEVELS: Final = ("privileged", "baseline", "restricted")
#: The newest version that changed a check; later ones and `latest` are this one.
NEWEST: Final = 35
_CAPABILITIES: Final = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
_VOLUMES: Final = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
        *("projected", "secret"),
    }
)
_OTHER_VOLUMES: Final = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd"),
    *("flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk"),
    *("photonPersistentDisk", "portworxVolume", "scaleIO", "storageos"),
)
_SELINUX: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SYSCTLS: Final = frozenset(
    {
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies"),
        *("net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start"),
    }
)
_SYSCTLS_27: Final = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29: Final = _SYSCTLS_27 | {
    *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout"),
    *("net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes"),
}
_SYSCTLS_32: Final = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SECCOMP: Final = frozenset({"Localhost", "RuntimeDefault"})
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


def _containers(spec: Spec) -> Iterator[Mapping[str, Any]]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _context(part: Mapping[str, Any]) -> Mapping[str, Any]:
    return part.get("securityContext") or {}


def _quoted(texts: Sequence[str]) -> str:
    return ", ".join(f'"{one}"' for one in texts)


def _plural(count: int, one: str, many: str = "") -> str:
    return one if count == 1 else many or f"{one}s"


def _those(names: Sequence[str]) -> str:
    return f"{_plural(len(names), 'container')} {_quoted(names)}"


def _setters(pod: bool, names: Sequence[str]) -> str:
    return " and ".join([*(["pod"] if pod else []), *([_those(names)] if names else [])])


def _where(spec: Spec, applies: Callable[[Mapping[str, Any]], bool]) -> list[str]:
    return [one.get("name") or "" for one in _containers(spec) if applies(_context(one))]


def _is_windows(spec: Spec) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _not_on_windows(check: Check) -> Check:
    return lambda metadata, spec: None if _is_windows(spec) else check(metadata, spec)


def _not_in_user_namespace(check: Check) -> Check:
    return lambda metadata, spec: None if spec.get("hostUsers") is False else check(metadata, spec)


def _escalation(_: Mapping[str, str], spec: Spec) -> Violation | None:
    bad = _where(spec, lambda context: context.get("allowPrivilegeEscalation") is not False)
    detail = f"{_those(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return ("allowPrivilegeEscalation != false", detail) if bad else None


def _apparmor(annotations: Mapping[str, str], spec: Spec) -> Violation | None:
    def wrong(context: Mapping[str, Any]) -> str:
        profile = context.get("appArmorProfile")
        kind = (profile or {}).get("type") or ""
        return kind if profile is not None and kind not in ("RuntimeDefault", "Localhost") else ""

    bad = _where(spec, lambda context: bool(wrong(context)))
    found = sorted({wrong(_context(one)) for one in (spec, *_containers(spec))} - {""})
    setters = [one for one in [_setters(bool(wrong(_context(spec))), bad)] if one]
    given = sorted(
        f'{key}="{value}"'
        for key, value in annotations.items()
        if key.startswith(_APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if given:
        found += given
        setters.append(_plural(len(given), "annotation"))
    if not setters:
        return None
    detail = f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(found)}"
    return _plural(len(found), "forbidden AppArmor profile"), detail


def _added(context: Mapping[str, Any]) -> list[str]:
    return list((context.get("capabilities") or {}).get("add") or ())


def _capabilities(_: Mapping[str, str], spec: Spec) -> Violation | None:
    bad = _where(spec, lambda context: bool(set(_added(context)) - _CAPABILITIES))
    more = sorted({each for one in _containers(spec) for each in _added(_context(one))} - _CAPABILITIES)
    detail = f"{_those(bad)} must not include {_quoted(more)} in securityContext.capabilities.add"
    return ("non-default capabilities", detail) if bad else None


def _restricted_capabilities(_: Mapping[str, str], spec: Spec) -> Violation | None:
    allowed = {"NET_BIND_SERVICE"}
    keeping = _where(spec, lambda context: "ALL" not in ((context.get("capabilities") or {}).get("drop") or ()))
    adding = _where(spec, lambda context: bool(set(_added(context)) - allowed))
    more = sorted({each for one in _containers(spec) for each in _added(_context(one))} - allowed)
    details = []
    if keeping:
        details.append(f'{_those(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        details.append(f"{_those(adding)} must not include {_quoted(more)} in securityContext.capabilities.add")
    return ("unrestricted capabilities", "; ".join(details)) if details else None


def _host_namespaces(_: Mapping[str, str], spec: Spec) -> Violation | None:
    bad = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return ("host namespaces", ", ".join(bad)) if bad else None


def _host_paths(_: Mapping[str, str], spec: Spec) -> Violation | None:
    bad = [one["name"] for one in spec.get("volumes") or () if one.get("hostPath") is not None]
    return ("hostPath volumes", f"{_plural(len(bad), 'volume')} {_quoted(bad)}") if bad else None


def _host_ports(_: Mapping[str, str], spec: Spec) -> Violation | None:
    using = {
        one.get("name") or "": [str(port["hostPort"]) for port in one.get("ports") or () if port.get("hostPort")]
        for one in _containers(spec)
    }
    bad = [name for name, ports in using.items() if ports]
    ports = sorted({port for found in using.values() for port in found})
    uses = _plural(len(bad), "uses", "use")
    detail = f"{_those(bad)} {uses} {_plural(len(ports), 'hostPort')} {', '.join(ports)}"
    return ("hostPort", detail) if bad else None


def _hosts(container: Mapping[str, Any]) -> set[str]:
    lifecycle = container.get("lifecycle") or {}
    handlers = [container.get(name) or {} for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    handlers += [lifecycle.get(name) or {} for name in ("postStart", "preStop")]
    return {(one.get(how) or {}).get("host") or "" for one in handlers for how in ("httpGet", "tcpSocket")} - {""}


def _probe_hosts(_: Mapping[str, str], spec: Spec) -> Violation | None:
    bad = sorted({one.get("name") or "" for one in _containers(spec) if _hosts(one)})
    hosts = sorted({host for one in _containers(spec) for host in _hosts(one)})
    uses, what = _plural(len(bad), "uses", "use"), _plural(len(hosts), "probe or lifecycle host")
    return ("probe or lifecycle host", f"{_those(bad)} {uses} {what} {_quoted(hosts)}") if bad else None


def _privileged(_: Mapping[str, str], spec: Spec) -> Violation | None:
    bad = _where(spec, lambda context: context.get("privileged") is True)
    return ("privileged", f"{_those(bad)} must not set securityContext.privileged=true") if bad else None


def _proc_mount(_: Mapping[str, str], spec: Spec) -> Violation | None:
    bad = _where(spec, lambda context: context.get("procMount") not in (None, "Default"))
    kinds = sorted({str(_context(one).get("procMount") or "Default") for one in _containers(spec)} - {"Default"})
    detail = f"{_those(bad)} must not set securityContext.procMount to {_quoted(kinds)}"
    return ("procMount", detail) if bad else None


def _volumes(_: Mapping[str, str], spec: Spec) -> Violation | None:
    bad = [one for one in spec.get("volumes") or () if not any(one.get(kind) is not None for kind in _VOLUMES)]
    kinds = sorted({next((kind for kind in _OTHER_VOLUMES if one.get(kind) is not None), "unknown") for one in bad})
    names = [one["name"] for one in bad]
    what = _plural(len(kinds), "restricted volume type")
    uses = _plural(len(bad), "uses", "use")
    detail = f"{_plural(len(bad), 'volume')} {_quoted(names)} {uses} {what} {_quoted(kinds)}"
    return ("restricted volume types", detail) if bad else None


def _non_root(_: Mapping[str, str], spec: Spec) -> Violation | None:
    reason, of_pod = "runAsNonRoot != true", _context(spec).get("runAsNonRoot")
    bad = _where(spec, lambda context: context.get("runAsNonRoot") is False)
    if of_pod is False or bad:
        return reason, f"{_setters(of_pod is False, bad)} must not set securityContext.runAsNonRoot=false"
    unset = _where(spec, lambda context: context.get("runAsNonRoot") is None) if not of_pod else []
    return (reason, f"pod or {_those(unset)} must set securityContext.runAsNonRoot=true") if unset else None


def _user(_: Mapping[str, str], spec: Spec) -> Violation | None:
    of_pod = _context(spec).get("runAsUser") == 0
    bad = _where(spec, lambda context: context.get("runAsUser") == 0)
    return ("runAsUser=0", f"{_setters(of_pod, bad)} must not set runAsUser=0") if of_pod or bad else None


def _selinux(allowed: frozenset[str]) -> Check:
    def options(context: Mapping[str, Any]) -> Mapping[str, Any]:
        return context.get("seLinuxOptions") or {}

    def wrong(context: Mapping[str, Any]) -> bool:
        given = options(context)
        return (given.get("type") or "") not in allowed or bool(given.get("user") or given.get("role"))

    def check(_: Mapping[str, str], spec: Spec) -> Violation | None:
        of_pod, bad = wrong(_context(spec)), _where(spec, wrong)
        given = [options(_context(one)) for one in (spec, *_containers(spec))]
        kinds = sorted({one.get("type") or "" for one in given} - allowed)
        data = [f"{_plural(len(kinds), 'type')} {_quoted(kinds)}"] if kinds else []
        data += [f"{name} may not be set" for name in ("user", "role") if any(one.get(name) for one in given)]
        detail = f"{_setters(of_pod, bad)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return ("seLinuxOptions", detail) if of_pod or bad else None

    return check


def _seccomp_annotations(annotations: Mapping[str, str], spec: Spec) -> Violation | None:
    keys = [_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{one.get('name')}" for one in _containers(spec))]
    bad = sorted(
        {
            f'{key}="{annotations[key]}"'
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    detail = f"forbidden {_plural(len(bad), 'annotation')} {', '.join(bad)}"
    return ("seccompProfile", detail) if bad else None


def _profile(context: Mapping[str, Any]) -> str | None:
    profile = context.get("seccompProfile")
    return None if profile is None else profile.get("type") or ""


def _seccomp(_: Mapping[str, str], spec: Spec) -> Violation | None:
    of_pod = _profile(_context(spec)) not in {None, *_SECCOMP}
    bad = _where(spec, lambda context: _profile(context) not in {None, *_SECCOMP})
    if not of_pod and not bad:
        return None
    given = {_profile(_context(one)) for one in (spec, *_containers(spec))}
    kinds = sorted(one for one in given if one is not None and one not in _SECCOMP)
    return (
        "seccompProfile",
        f"{_setters(of_pod, bad)} must not set securityContext.seccompProfile.type to {_quoted(kinds)}",
    )


def _restricted_seccomp(annotations: Mapping[str, str], spec: Spec) -> Violation | None:
    found = _seccomp(annotations, spec)
    if found is not None:
        return found
    unset = _where(spec, lambda context: _profile(context) is None) if _profile(_context(spec)) is None else []
    detail = f'pod or {_those(unset)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return ("seccompProfile", detail) if unset else None


def _sysctls(allowed: frozenset[str]) -> Check:
    def check(_: Mapping[str, str], spec: Spec) -> Violation | None:
        bad = [one["name"] for one in _context(spec).get("sysctls") or () if one["name"] not in allowed]
        return ("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def _host_process(_: Mapping[str, str], spec: Spec) -> Violation | None:
    def wrong(context: Mapping[str, Any]) -> bool:
        return (context.get("windowsOptions") or {}).get("hostProcess") is True

    of_pod, bad = wrong(_context(spec)), _where(spec, wrong)
    detail = f"{_setters(of_pod, bad)} must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", detail) if of_pod or bad else None


#: Names to versions, in the order in which violations are listed: the check from a minor version on.
_BASELINE: Final[Mapping[str, Sequence[tuple[int, Check]]]] = {
    "appArmorProfile": [(0, _apparmor)],
    "capabilities_baseline": [(0, _capabilities)],
    "hostNamespaces": [(0, _host_namespaces)],
    "hostPathVolumes": [(0, _host_paths)],
    "hostPorts": [(0, _host_ports)],
    "hostProbesAndHostLifecycle": [(34, _probe_hosts)],
    "privileged": [(0, _privileged)],
    "procMount": [(0, _proc_mount), (35, _not_in_user_namespace(_proc_mount))],
    "seLinuxOptions": [(0, _selinux(_SELINUX)), (31, _selinux(_SELINUX | {"container_engine_t"}))],
    "seccompProfile_baseline": [(0, _seccomp_annotations), (19, _seccomp)],
    "sysctls": [
        (0, _sysctls(_SYSCTLS)),
        (27, _sysctls(_SYSCTLS_27)),
        (29, _sysctls(_SYSCTLS_29)),
        (32, _sysctls(_SYSCTLS_32)),
    ],
    "windowsHostProcess": [(0, _host_process)],
}
#: The same, with the check of the level below that it takes the place of.
_RESTRICTED: Final[Mapping[str, tuple[str, Sequence[tuple[int, Check]]]]] = {
    "allowPrivilegeEscalation": ("", [(8, _escalation), (25, _not_on_windows(_escalation))]),
    "capabilities_restricted": (
        "capabilities_baseline",
        [(22, _restricted_capabilities), (25, _not_on_windows(_restricted_capabilities))],
    ),
    "procMount_restricted": ("procMount", [(35, _proc_mount)]),
    "restrictedVolumes": ("hostPathVolumes", [(0, _volumes)]),
    "runAsNonRoot": ("", [(0, _non_root), (35, _not_in_user_namespace(_non_root))]),
    "runAsUser": ("", [(23, _user), (35, _not_in_user_namespace(_user))]),
    "seccompProfile_restricted": (
        "seccompProfile_baseline",
        [(19, _restricted_seccomp), (25, _not_on_windows(_restricted_seccomp))],
    ),
}


def _at(versions: Sequence[tuple[int, Check]], minor: int) -> Check | None:
    return next((check for since, check in reversed(versions) if since <= minor), None)


def _checks(level: str, minor: int) -> tuple[Check, ...]:
    if level == "privileged":
        return ()
    found = {name: _at(versions, minor) for name, versions in _BASELINE.items()}
    if level == "restricted":
        for name, (replaced, versions) in _RESTRICTED.items():
            check = _at(versions, minor)
            if check is not None:
                found[name] = check
                found.pop(replaced, None)
    return tuple(check for check in found.values() if check is not None)


_ALL: Final = {(level, minor): _checks(level, minor) for level in LEVELS for minor in range(NEWEST + 1)}


def violations(level: str, minor: int, metadata: Mapping[str, Any], spec: Spec) -> list[Violation]:
    """What a pod violates at a level of a version (1.`minor`)."""
    annotations = metadata.get("annotations") or {}
    found = (check(annotations, spec) for check in _ALL[level, min(minor, NEWEST)])
    return [one for one in found if one is not None]


def shown(found: Sequence[Violation]) -> str:
    """Violations as messages list them."""
    return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in found)
