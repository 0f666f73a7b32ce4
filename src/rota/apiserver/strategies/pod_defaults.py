"""Defaults of pods and pod templates. Pure.

A template gets the defaults of its spec; a pod gets some more (requests from limits). Mirrors
`pkg/apis/core/v1/defaults.go` of Kubernetes 1.33.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from rota.apiserver.interfaces import Object

#: A tag after the last slash; the digest, if there is one, follows an at sign.
_TAG: Final = re.compile(r":([^/:]+)$")
_FILE_MODE: Final = 0o644
_VOLUMES_WITH_MODE: Final = ("secret", "configMap", "downwardAPI", "projected")
_LASTING_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def default_pod(pod: Object) -> None:
    """Set the defaults of a pod."""
    spec = pod.setdefault("spec", {})
    default_spec(spec)
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.setdefault("resources", {})
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]
    spec.setdefault("enableServiceLinks", True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1


def default_spec(spec: Object) -> None:
    """Set the defaults of the spec of a pod or a pod template."""
    for name, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("terminationGracePeriodSeconds", 30),
    ):
        if spec.get(name) in {None, ""}:
            spec[name] = value
    spec.setdefault("securityContext", {})
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def containers(spec: Object) -> Iterator[Object]:
    """All containers of a pod, of every kind."""
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def pull_policy(image: str) -> str:
    """The default pull policy: Always for the tag latest, otherwise IfNotPresent."""
    name, at, _ = image.partition("@")
    tag = _TAG.search(name)
    latest = tag[1] == "latest" if tag else not at
    return "Always" if latest else "IfNotPresent"


def _default_container(container: Object) -> None:
    for name, value in (
        ("imagePullPolicy", pull_policy(container.get("image", ""))),
        ("terminationMessagePath", "/dev/termination-log"),
        ("terminationMessagePolicy", "File"),
    ):
        if not container.get(name):
            container[name] = value
    container.setdefault("resources", {})
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for probe in filter(None, (container.get(name) for name in _LASTING_PROBES)):
        for name, number in _PROBE.items():
            if not probe.get(name):
                probe[name] = number
        _default_handler(probe)
    for hook in filter(None, (container.get("lifecycle") or {}).values()):
        if isinstance(hook, dict):
            _default_handler(hook)
    for variable in container.get("env") or ():
        _default_reference((variable.get("valueFrom") or {}).get("fieldRef"))


def _default_handler(handler: Object) -> None:
    http = handler.get("httpGet")
    if http is not None:
        for name, value in (("path", "/"), ("scheme", "HTTP")):
            if not http.get(name):
                http[name] = value
    if handler.get("grpc") is not None:
        handler["grpc"].setdefault("service", "")


def _default_reference(reference: Object | None) -> None:
    if reference is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"


def _default_volume(volume: Object) -> None:
    if not any(value is not None for name, value in volume.items() if name != "name"):
        volume["emptyDir"] = {}
    for kind in _VOLUMES_WITH_MODE:
        source = volume.get(kind)
        if source is not None:
            source.setdefault("defaultMode", _FILE_MODE)
            _default_items(source)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        template.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _default_items(source: dict[str, Any]) -> None:
    for item in source.get("items") or ():
        _default_reference(item.get("fieldRef"))
    for projection in source.get("sources") or ():
        token = projection.get("serviceAccountToken")
        if token is not None:
            token.setdefault("expirationSeconds", 3600)
        for item in (projection.get("downwardAPI") or {}).get("items") or ():
            _default_reference(item.get("fieldRef"))
