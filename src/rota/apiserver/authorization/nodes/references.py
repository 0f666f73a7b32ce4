"""What pods and volumes reference, from their specs. Pure.

The fields that may hold a reference are upstream's (`pkg/api/v1/pod/util.go`, `pkg/api/v1/persistentvolume/util.go`,
1.36).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

SECRETS: Final = "secrets"
CONFIG_MAPS: Final = "configmaps"
CLAIMS: Final = "persistentvolumeclaims"
ACCOUNTS: Final = "serviceaccounts"
DEVICE_CLAIMS: Final = "resourceclaims"
MIRROR: Final = "kubernetes.io/config.mirror"

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
#: Volume sources that name a secret in `secretRef`.
_WITH_SECRET: Final = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
#: Secrets of a CSI volume that its node needs; the node may not read those of the controller.
_CSI_OF_NODES: Final = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


class Reference(NamedTuple):
    """An object that a pod needs."""

    resource: str
    namespace: str
    name: str


def of_pod(pod: Mapping[str, Any]) -> frozenset[Reference]:
    """Everything that a pod references, which its node may read."""
    if MIRROR in (pod["metadata"].get("annotations") or {}):
        return frozenset()  # a mirror pod is written by the node itself and must not grant it anything
    namespace = pod["metadata"].get("namespace", "")
    named = (
        *((SECRETS, name) for name in secrets(pod)),
        *((CONFIG_MAPS, name) for name in config_maps(pod)),
        *((CLAIMS, name) for name in claims(pod)),
        *((DEVICE_CLAIMS, name) for name in device_claims(pod)),
        (ACCOUNTS, pod["spec"].get("serviceAccountName")),
    )
    return frozenset(Reference(resource, namespace, name) for resource, name in named if name)


def secrets(pod: Mapping[str, Any]) -> Iterator[str]:
    """Names of secrets."""
    spec = pod["spec"]
    yield from _names(spec.get("imagePullSecrets"))
    yield from _from_environment(spec, "secretKeyRef", "secretRef")
    for volume in spec.get("volumes") or ():
        yield from _named((volume.get("azureFile") or {}).get("secretName"))
        yield from _named((volume.get("secret") or {}).get("secretName"))
        yield from _names([(volume.get(kind) or {}).get("secretRef") for kind in _WITH_SECRET])
        yield from _names([(volume.get("csi") or {}).get("nodePublishSecretRef")])
        yield from _projected(volume, "secret")


def config_maps(pod: Mapping[str, Any]) -> Iterator[str]:
    """Names of config maps."""
    spec = pod["spec"]
    yield from _from_environment(spec, "configMapKeyRef", "configMapRef")
    for volume in spec.get("volumes") or ():
        yield from _names([volume.get("configMap")])
        yield from _projected(volume, "configMap")


def claims(pod: Mapping[str, Any]) -> Iterator[str]:
    """Names of volume claims, those made for the pod's ephemeral volumes included."""
    for volume in pod["spec"].get("volumes") or ():
        yield from _named((volume.get("persistentVolumeClaim") or {}).get("claimName"))
        if volume.get("ephemeral"):
            yield f"{pod['metadata']['name']}-{volume['name']}"


def device_claims(pod: Mapping[str, Any]) -> Iterator[str]:
    """Names of resource claims: those named in the spec, and those made from templates."""
    for claim in pod["spec"].get("resourceClaims") or ():
        yield from _named(claim.get("resourceClaimName"))
    for made in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        yield from _named(made.get("resourceClaimName"))


def of_volume(volume: Mapping[str, Any]) -> tuple[Reference | None, frozenset[Reference]]:
    """The claim that a persistent volume is bound to, and the secrets that the claim's node needs for it."""
    spec = volume.get("spec") or {}
    bound = spec.get("claimRef")
    if not bound:
        return None, frozenset()
    home = bound.get("namespace", "")
    azure = spec.get("azureFile") or {}
    found: list[dict[str, Any]] = [{"name": azure.get("secretName"), "namespace": azure.get("secretNamespace")}]
    found += [(spec.get(kind) or {}).get("secretRef") or {} for kind in _WITH_SECRET]
    found += [(spec.get("csi") or {}).get(field) or {} for field in _CSI_OF_NODES]
    needed = (Reference(SECRETS, one.get("namespace") or home, one["name"]) for one in found if one.get("name"))
    return Reference(CLAIMS, home, bound.get("name", "")), frozenset(needed)


def _from_environment(spec: Mapping[str, Any], by_key: str, whole: str) -> Iterator[str]:
    for container in (one for kind in _CONTAINERS for one in spec.get(kind) or ()):
        yield from _names([source.get(whole) for source in container.get("envFrom") or ()])
        yield from _names([(variable.get("valueFrom") or {}).get(by_key) for variable in container.get("env") or ()])


def _projected(volume: Mapping[str, Any], kind: str) -> Iterator[str]:
    return _names([source.get(kind) for source in (volume.get("projected") or {}).get("sources") or ()])


def _names(found: list[Any] | None) -> Iterator[str]:
    for one in found or ():
        yield from _named((one or {}).get("name"))


def _named(name: str | None) -> Iterator[str]:
    if name:
        yield name
