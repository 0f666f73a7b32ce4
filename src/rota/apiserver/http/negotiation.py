"""Content negotiation: the format (JSON, YAML) and the shape (the object, a Table, its metadata).

Pure. Protobuf is read but not written: clients that prefer it accept JSON as well. `as`, `g` and `v` in an Accept
clause ask for another shape; a clause with a shape that is not offered for the request is ignored.
"""

import enum
import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from rota.api import errors

PRODUCED: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_BY_HAND: Final = ("curl", "Wget", "Mozilla/5.0")
_META_VERSIONS: Final = frozenset({"v1", "v1beta1"})


class Shape(enum.Enum):
    """What is shown of the objects."""

    OBJECT = "object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


_SHAPES: Final = {shape.value: shape for shape in Shape if shape is not Shape.OBJECT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The result of a negotiation."""

    yaml: bool = False
    shape: Shape = Shape.OBJECT
    #: The version of `meta.k8s.io` of a shape other than the object.
    version: str = "v1"
    #: Indented for people.
    pretty: bool = False

    @property
    def plain(self) -> bool:
        """Whether stored bytes can be sent as they are."""
        return not self.yaml and not self.pretty and self.shape is Shape.OBJECT


PLAIN: Final = Accepted()


@dataclass(frozen=True, slots=True)
class Clause:
    """One alternative of an Accept header."""

    media_type: str
    parameters: Mapping[str, str]
    quality: float = 1.0


@functools.lru_cache(maxsize=512)
def parse(accept: str) -> tuple[Clause, ...]:
    """The alternatives of an Accept header by preference; those of equal rank in their order."""
    clauses = []
    for part in accept.split(","):
        media_type, *parameters = (piece.strip() for piece in part.split(";"))
        if not media_type:
            continue
        named = {name: value for name, _, value in (piece.partition("=") for piece in parameters if piece)}
        clauses.append(Clause(media_type.lower(), named, _quality(named.pop("q", "1"))))
    return tuple(sorted(clauses, key=lambda clause: -clause.quality))


@functools.lru_cache(maxsize=512)
def accepted(accept: str, *, listing: bool = False) -> Accepted:
    """The representation of the response; NotAcceptable if none is acceptable.

    `listing` says that the response is a list, which has another metadata shape than an object.
    """
    if not accept:
        return PLAIN
    for clause in parse(accept):
        yaml = clause.media_type == "application/yaml"
        if clause.quality <= 0 or not (yaml or clause.media_type in {"application/json", "application/*", "*/*"}):
            continue
        wanted = clause.parameters.get("as")
        if wanted is None:
            return Accepted(yaml=yaml)
        version = clause.parameters.get("v", "")
        shape = _SHAPES.get(wanted)
        if shape is None or clause.parameters.get("g") != "meta.k8s.io" or version not in _META_VERSIONS:
            continue
        if shape is (Shape.METADATA if listing else Shape.METADATA_LIST):
            continue
        return Accepted(yaml=yaml, shape=shape, version=version)
    raise errors.not_acceptable(PRODUCED)


@functools.lru_cache(maxsize=512)
def is_plain(accept: bytes, agent: bytes) -> bool:
    """Whether the client accepts stored bytes as they are; False also if that is not certain."""
    try:
        found = accepted(accept.decode("latin-1"))
    except errors.ApiError:
        return False
    return for_people(found, parameter=None, agent=agent.decode("latin-1")).plain


def for_people(found: Accepted, *, parameter: str | None, agent: str) -> Accepted:
    """The same, indented if the `pretty` parameter says so or the client is an interactive tool."""
    wanted = agent.startswith(_BY_HAND) if parameter is None else parameter in {"", "1", "true"}
    return replace(found, pretty=True) if wanted else found


def _quality(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 1.0
