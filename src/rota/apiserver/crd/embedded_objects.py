"""Complete objects inside custom objects (`x-kubernetes-embedded-resource`): they need apiVersion and kind."""

from collections.abc import Iterator
from typing import Any

from rota.api import fields, names
from rota.api.fields import FieldError, Path
from rota.api.identifiers import parse_api_version
from rota.apiserver.crd.structure import Structure


def errors(value: Any, at: Structure | None, path: Path = fields.ROOT) -> Iterator[FieldError]:
    """The errors of the objects embedded in a value."""
    if at is None or not at.holds_resources:
        return
    if isinstance(value, dict):
        if at.embeds_resource:
            yield from _own_errors(value, path)
        for name, item in value.items():
            declared = at.properties.get(name)
            below = path.child(name) if declared is not None else path.key(name)
            yield from errors(item, declared or at.additional, below)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from errors(item, at.items, path.index(position))


def _own_errors(value: dict[str, Any], path: Path) -> Iterator[FieldError]:
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(api_version, str) or not api_version:
        yield fields.required(path.child("apiVersion"), "must not be empty")
    elif parse_api_version(api_version) is None:
        why = f"unexpected GroupVersion string: {api_version}"
        yield fields.invalid(path.child("apiVersion"), api_version, why)
    if not isinstance(kind, str) or not kind:
        yield fields.required(path.child("kind"), "must not be empty")
    elif messages := names.check_dns1035_label(kind.lower()):
        why = f"may have mixed case, but should otherwise match: {','.join(messages)}"
        yield fields.invalid(path.child("kind"), kind, why)
