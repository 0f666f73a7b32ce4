"""The scale subresource of any kind: `autoscaling/v1` Scale.

Workloads have the number in `spec.replicas`; a custom kind's definition says where.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from rota.api import fields, selectors
from rota.api.kinds import ResourceType
from rota.apiserver.interfaces import Object
from rota.apiserver.strategies import checks

_SHOWN: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class CustomScale(Protocol):
    """Where objects of a custom kind have their replicas."""

    def read(self, obj: Mapping[str, Any], /) -> Object:
        """The Scale of an object."""
        ...

    def write(self, obj: Mapping[str, Any], replicas: int, /) -> Object:
        """The object with another number of replicas."""
        ...


#: The scale of a custom kind that has one.
CustomScales: TypeAlias = Callable[[ResourceType], CustomScale | None]


class ScaleProjection:
    """Implements `interfaces.Projection`."""

    def __init__(self, custom: CustomScales) -> None:
        self._custom: Final = custom

    def project(self, parent: Object, resource: ResourceType, /) -> Object:
        """The Scale of an object."""
        custom = self._custom(resource) if resource.custom else None
        if custom is not None:
            return custom.read(parent)
        spec, status = parent.get("spec") or {}, parent.get("status") or {}
        return {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {name: parent["metadata"][name] for name in _SHOWN if name in parent["metadata"]},
            "spec": {"replicas": spec.get("replicas", 0)},
            "status": {"replicas": status.get("replicas", 0), "selector": _selector(spec.get("selector"), resource)},
        }

    def inject(self, parent: Object, value: Object, resource: ResourceType, /) -> Object:
        """The object with the number of replicas of a Scale."""
        replicas = (value.get("spec") or {}).get("replicas") or 0
        custom = self._custom(resource) if resource.custom else None
        if custom is not None:
            return custom.write(parent, replicas)
        return {**parent, "spec": {**(parent.get("spec") or {}), "replicas": replicas}}

    def validate(self, value: Object, /) -> list[fields.FieldError]:
        """Replicas must not be negative."""
        return checks.not_negative((value.get("spec") or {}).get("replicas"), fields.Path("spec").child("replicas"))


def _selector(selector: Mapping[str, Any] | None, resource: ResourceType) -> str:
    if resource.plural == "replicationcontrollers":
        return str(selectors.from_labels(selector))
    return str(selectors.from_object(selector)) if selector else ""
