"""Objects reduced to their metadata, for clients that need no more (`as=PartialObjectMetadata`)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

V1: Final = "meta.k8s.io/v1"
V1BETA1: Final = "meta.k8s.io/v1beta1"


def partial(obj: Mapping[str, Any], *, api_version: str = V1) -> dict[str, Any]:
    """The PartialObjectMetadata of an object; it shares the object's metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": obj.get("metadata") or {}}


def partial_list(
    objects: Iterable[Mapping[str, Any]], *, list_metadata: Mapping[str, Any], api_version: str = V1
) -> dict[str, Any]:
    """The PartialObjectMetadataList of a list's objects; resourceVersion and continue are in `list_metadata`."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": api_version,
        "metadata": dict(list_metadata),
        "items": [partial(obj, api_version=api_version) for obj in objects],
    }
