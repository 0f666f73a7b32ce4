"""What a resource needs beside it: the ConfigMaps, Secrets, ServiceAccounts and claims that its pods name."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from rota.api import meta
from rota.federation import object_names
from rota.federation.interpreters import trees

Object: TypeAlias = Mapping[str, Any]

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
#: Volumes that name a Secret, with the way to its name.
_SECRET_VOLUMES: Final = (
    ("azureFile", "secretName"),
    ("cephfs", "secretRef", "name"),
    ("cinder", "secretRef", "name"),
    ("flexVolume", "secretRef", "name"),
    ("rbd", "secretRef", "name"),
    ("secret", "secretName"),
    ("scaleIO", "secretRef", "name"),
    ("iscsi", "secretRef", "name"),
    ("storageos", "secretRef", "name"),
    ("csi", "nodePublishSecretRef", "name"),
)


def of_template(*path: str) -> Callable[[Object], list[dict[str, Any]]]:
    """Dependencies of the pods of a workload whose pod spec is at a path."""

    def dependencies(obj: Object) -> list[dict[str, Any]]:
        return of_pod_spec(trees.get(obj, *path) or {}, meta.namespace(obj))

    return dependencies


def of_stateful_set(obj: Object) -> list[dict[str, Any]]:
    """Like other templates, but claims that it makes itself are no dependencies."""
    own = {meta.name(one) for one in trees.get(obj, "spec", "volumeClaimTemplates") or ()}
    found = of_template("spec", "template", "spec")(obj)
    return [one for one in found if one["kind"] != "PersistentVolumeClaim" or one["name"] not in own]


def of_ingress(obj: Object) -> list[dict[str, Any]]:
    """The Secrets of its TLS hosts."""
    namespace = meta.namespace(obj)
    hosts = trees.get(obj, "spec", "tls") or ()
    return [_reference("v1", "Secret", namespace, one.get("secretName") or "") for one in hosts]


def of_service_import(obj: Object) -> list[dict[str, Any]]:
    """The Service that stands for the imported one, and its EndpointSlices."""
    namespace, service = meta.namespace(obj), object_names.derived_service(meta.name(obj))
    return [
        _reference("v1", "Service", namespace, service),
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "namespace": namespace,
            "labelSelector": {"matchLabels": {"kubernetes.io/service-name": service}},
        },
    ]


def of_pod_spec(spec: Object, namespace: str) -> list[dict[str, Any]]:
    """What a pod names, each once, by kind and name."""
    volumes = spec.get("volumes") or ()
    account = spec.get("serviceAccountName") or ""
    by_kind = (
        ("ConfigMap", _config_maps(spec, volumes)),
        (
            "PersistentVolumeClaim",
            filter(None, (trees.get(one, "persistentVolumeClaim", "claimName") for one in volumes)),
        ),
        ("Secret", _secrets(spec, volumes)),
        ("ServiceAccount", [account] if account not in ("", "default") else []),
    )
    return [_reference("v1", kind, namespace, name) for kind, names in by_kind for name in sorted(set(names))]


def _reference(api_version: str, kind: str, namespace: str, name: str) -> dict[str, Any]:
    found = {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name}
    return {member: value for member, value in found.items() if value}


def _named_by_containers(spec: Object, key_reference: str, source: str) -> Iterator[str]:
    for container in (one for part in _CONTAINERS for one in spec.get(part) or ()):
        for variables in container.get("envFrom") or ():
            if variables.get(source) is not None:
                yield variables[source].get("name") or ""
        for variable in container.get("env") or ():
            reference = trees.get(variable, "valueFrom", key_reference)
            if reference is not None:
                yield reference.get("name") or ""


def _projected(volumes: Iterable[Object], source: str) -> Iterator[str]:
    for volume in volumes:
        for one in trees.get(volume, "projected", "sources") or ():
            if one.get(source) is not None:
                yield one[source].get("name") or ""


def _config_maps(spec: Object, volumes: Iterable[Object]) -> Iterator[str]:
    yield from _named_by_containers(spec, "configMapKeyRef", "configMapRef")
    yield from _projected(volumes, "configMap")
    for volume in volumes:
        if volume.get("configMap") is not None:
            yield volume["configMap"].get("name") or ""


def _secrets(spec: Object, volumes: Iterable[Object]) -> Iterator[str]:
    for reference in spec.get("imagePullSecrets") or ():
        yield reference.get("name") or ""
    yield from _named_by_containers(spec, "secretKeyRef", "secretRef")
    yield from _projected(volumes, "secret")
    for volume in volumes:
        for path in _SECRET_VOLUMES:
            name = trees.get(volume, *path)
            if name:
                yield name
