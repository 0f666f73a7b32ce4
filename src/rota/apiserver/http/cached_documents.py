"""Cacheable descriptions of the server: discovery and OpenAPI.

A document is created once for a state of the scheme. Its entity tag is a hash of its bytes, so that a client that has
the same bytes, from this or another server, gets 304 instead.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rota.apiserver.http.responses import Headers, Response

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Document:
    """Bytes with their media type and a hash of both."""

    body: bytes
    content_type: str = JSON
    #: Hexadecimal; used in the entity tag and in URLs that change with the content.
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256(self.content_type.encode() + b"\n" + self.body).hexdigest()
        object.__setattr__(self, "digest", digest.upper())

    @property
    def etag(self) -> str:
        """The entity tag, with its quotes."""
        return f'"{self.digest}"'


def encode(content: object, content_type: str = JSON) -> Document:
    """A document of JSON."""
    return Document(msgspec.json.encode(content), content_type)


def respond(document: Document, if_none_match: str = "") -> Response:
    """The document, or 304 if the client already has it; `if_none_match` is the header of that name."""
    headers: Headers = ((b"etag", document.etag.encode()), (b"vary", b"Accept"))
    if _is_listed(document.etag, if_none_match):
        return Response(304, b"", document.content_type, headers)
    return Response(200, document.body, document.content_type, headers)


def _is_listed(etag: str, if_none_match: str) -> bool:
    """By weak comparison, as this header requires."""
    tags = (tag.strip().removeprefix("W/") for tag in if_none_match.split(","))
    return any(tag in {"*", etag} for tag in tags)
