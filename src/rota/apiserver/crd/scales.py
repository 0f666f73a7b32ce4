"""The scale subresource of a custom object, at the paths that its definition gives.

`ScalePaths` reads and writes the fields for custom kinds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.apiserver.crd import version_rules


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePaths:
    """Paths from the root of an object, as keys."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    label_selector: tuple[str, ...] = ()

    def read(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """The Scale of an object; replicas that are not set are 0."""
        metadata = obj["metadata"]
        shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        status = {"replicas": _number(_value(obj, self.status_replicas))}
        selector = _value(obj, self.label_selector) if self.label_selector else None
        if isinstance(selector, str) and selector:
            status["selector"] = selector
        return {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {name: metadata[name] for name in shown if name in metadata},
            "spec": {"replicas": _number(_value(obj, self.spec_replicas))},
            "status": status,
        }

    def write(self, obj: Mapping[str, Any], replicas: int) -> dict[str, Any]:
        """The object with another number of replicas; the argument is not changed."""
        return _with_value(obj, self.spec_replicas, replicas)


def from_definition(scale: Mapping[str, Any] | None) -> ScalePaths | None:
    """The paths of a version's `subresources.scale`."""
    if scale is None:
        return None
    selector = scale.get("labelSelectorPath") or ""
    return ScalePaths(
        spec_replicas=version_rules.steps(scale["specReplicasPath"]),
        status_replicas=version_rules.steps(scale["statusReplicasPath"]),
        label_selector=version_rules.steps(selector) if selector else (),
    )


def _value(obj: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _number(value: Any) -> Any:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _with_value(obj: Mapping[str, Any], steps: tuple[str, ...], value: int) -> dict[str, Any]:
    first, *rest = steps
    inner = obj.get(first)
    below = inner if isinstance(inner, dict) else {}
    return {**obj, first: _with_value(below, tuple(rest), value) if rest else value}
