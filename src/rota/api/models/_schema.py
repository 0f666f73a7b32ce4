"""The base of the generated model modules: `DictMixin`, `dataclass`, `field`.

All fields are optional when decoding, as in Go, where an absent field has its zero value; whether a field must be
there is a question of validation (`rota.api.schemas` knows which are marked as required). Two things that the
generated annotations lose are put back: what the values of a map are, and which times carry microseconds.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Dict, Final, List, Optional, TypeAlias, Union  # noqa: UP035 - as generated

import msgspec

__all__ = ["DictMixin", "Meaning", "MicroTime", "Quantity", "Time", "dataclass", "field", "required_fields"]


class Meaning(msgspec.Struct, frozen=True):
    """What a scalar stands for, beyond its JSON type."""

    name: str


def _meaning(name: str) -> msgspec.Meta:
    return msgspec.Meta(extra={"meaning": Meaning(name)})


Quantity: TypeAlias = Annotated[Union[str, int, float], _meaning("quantity")]  # noqa: UP007 - a runtime value
Time: TypeAlias = Annotated[datetime, _meaning("time")]
MicroTime: TypeAlias = Annotated[datetime, _meaning("microtime")]

_STRINGS: Final = Optional[Dict[str, str]]  # noqa: UP006, UP045 - a runtime value, in the style of the generated code
_QUANTITIES: Final = Optional[Dict[str, Quantity]]  # noqa: UP006, UP045
_LISTS: Final = Optional[Dict[str, List[str]]]  # noqa: UP006, UP045
_TIMES: Final = Optional[Dict[str, Time]]  # noqa: UP006, UP045

#: Maps whose values are all of one type. A name alone means every Struct; `Struct.name` goes first.
_MAPS: Final[Mapping[str, Any]] = {
    "Device.capacity": None,  # maps of Structs stay open
    **dict.fromkeys(
        (
            "labels", "annotations", "matchLabels", "nodeSelector", "selector", "data", "binaryData", "stringData",
            "volumeAttributes", "options", "parameters", "attachmentMetadata", "deprecatedTopology",
            "allocatedResourceStatuses", "userAnnotations", "unverifiedUserAnnotations",
        ),
        _STRINGS,
    ),
    **dict.fromkeys(
        (
            "limits", "requests", "capacity", "allocatable", "allocatedResources", "overhead", "podFixed", "hard",
            "used", "default", "defaultRequest", "max", "min", "maxLimitRequestRatio", "consumedCapacity",
        ),
        _QUANTITIES,
    ),
    "extra": _LISTS,
    "disruptedPods": _TIMES,
}  # fmt: skip

_TIME_ALIASES: Final[Mapping[str, Any]] = {
    "Time": Time,
    "MicroTime": MicroTime,
    "datetime": Time,
}
_ZEROS: Final[Mapping[str, Any]] = {"str": "", "int": 0, "bool": False, "float": 0.0}


class _ModelMeta(msgspec.StructMeta):
    """Repairs the annotations of a generated class before msgspec compiles it."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> Any:
        annotations: dict[str, Any] = namespace.get("__annotations__", {})
        required = tuple(one for one in annotations if one not in namespace)
        for one, annotation in annotations.items():
            annotations[one] = _repaired(name, one, annotation)
            if one in required:
                namespace[one] = _zero(annotation)
        cls = super().__new__(mcls, name, bases, namespace, **config)
        _REQUIRED[cls] = frozenset(required)
        return cls


_REQUIRED: Final[dict[Any, frozenset[str]]] = {}


class DictMixin(msgspec.Struct, metaclass=_ModelMeta, omit_defaults=True):
    """The base of every model; the name is the one that the generated modules use."""


def required_fields(model: type[msgspec.Struct]) -> frozenset[str]:
    """The attributes that the API marks as required."""
    return _REQUIRED.get(model, frozenset())


def dataclass(cls: type) -> type:
    """A no-op: the Struct is complete without it."""
    return cls


def field(*, metadata: Mapping[str, str] | None = None, default: Any = msgspec.NODEFAULT) -> Any:
    """A field whose JSON name cannot be a Python name."""
    return msgspec.field(name=(metadata or {}).get("json"), default=default)


def _repaired(model: str, name: str, annotation: Any) -> Any:
    if not isinstance(annotation, str):
        return annotation
    bare = annotation.removeprefix("Optional[").removesuffix("]") if annotation.startswith("Optional[") else annotation
    if bare == "dict":
        return _MAPS.get(f"{model}.{name}", _MAPS.get(name)) or annotation
    time = _TIME_ALIASES.get(bare.removeprefix("meta_v1."))
    return Optional[time] if time is not None else annotation  # noqa: UP045 - a runtime value


def _zero(annotation: Any) -> Any:
    """The value of a required field that is absent: Go's zero, and None for a Struct."""
    text = str(annotation)
    if text in _ZEROS:
        return _ZEROS[text]
    factory: Callable[[], Any] | None = list if text.startswith("List[") else dict if text == "dict" else None
    return msgspec.field(default_factory=factory) if factory else None
