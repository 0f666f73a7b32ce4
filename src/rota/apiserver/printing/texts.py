"""Cell texts that several kinds share: labels, selectors, containers, shortened lists, quantities."""

from collections.abc import Iterable, Mapping
from typing import Any

from rota.api import quantities, selectors
from rota.apiserver.printing.columns import NONE, Object, items

_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def labels(found: Mapping[str, str] | None) -> str:
    """A map of labels as a query."""
    return ",".join(f"{key}={value}" for key, value in sorted((found or {}).items())) or NONE


def selector(found: Mapping[str, Any] | None, *, broken: str = "<error>") -> str:
    """A LabelSelector as a query; a missing one selects nothing, an empty one everything."""
    try:
        return str(selectors.from_object(found)) or NONE
    except selectors.SelectorError:
        return broken


def containers(template: Object | None) -> list[str]:
    """Names and images of a pod template's containers, as two cells."""
    found = items(template, "spec", "containers")
    return [",".join(one.get(key) or "" for one in found) for key in ("name", "image")]


def shortened(texts: Iterable[str], *, limit: int = 3, empty: str = "<unset>") -> str:
    """The first few texts, and the number of others."""
    found = list(texts)
    shown = ",".join(found[:limit])
    return f"{shown} + {len(found) - limit} more..." if len(found) > limit else shown or empty


def access_modes(modes: Iterable[str] | None) -> str:
    """Access modes of a volume, in their short forms and in a fixed order."""
    found = set(modes or ())
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in found)


def quantity(value: str | float | None) -> str:
    """A quantity in canonical form; None is zero."""
    return str(quantities.from_wire(value))
