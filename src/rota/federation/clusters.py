"""A member cluster as decisions see it: the fields of the wire object that they read often."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from rota.api import meta

Object: TypeAlias = Mapping[str, Any]

COMPLETE_API_ENABLEMENTS = "CompleteAPIEnablements"


class Cluster:
    """One member cluster, read once."""

    __slots__ = (
        "apis",
        "deleting",
        "fields",
        "labels",
        "models",
        "name",
        "object",
        "provider",
        "region",
        "summary",
        "taints",
        "zones",
    )

    def __init__(self, obj: Object) -> None:
        self.object = obj
        self.name = meta.name(obj)
        self.labels = meta.labels(obj)
        self.deleting = meta.is_deleting(obj)
        spec: Object = obj.get("spec") or {}
        status: Object = obj.get("status") or {}
        self.provider: str = spec.get("provider") or ""
        self.region: str = spec.get("region") or ""
        self.zones: tuple[str, ...] = tuple(spec.get("zones") or ())
        self.taints: tuple[Object, ...] = tuple(spec.get("taints") or ())
        self.models: tuple[Object, ...] = tuple(spec.get("resourceModels") or ())
        #: Pairs of apiVersion and kind that the cluster serves.
        self.apis = frozenset(
            (enabled.get("groupVersion", ""), resource.get("kind", ""))
            for enabled in status.get("apiEnablements") or ()
            for resource in enabled.get("resources") or ()
        )
        self.summary: Object | None = status.get("resourceSummary")
        #: The fields of field selectors.
        self.fields = {name: value for name, value in (("provider", self.provider), ("region", self.region)) if value}
