"""The HTTP response of a webhook as values: the review that it holds, or why there is none. Pure.

The messages are those of Go's client of the Kubernetes API, which the stock server calls webhooks with.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from rota.api import gotext
from rota.apiserver import bodies
from rota.apiserver.admission.webhook_client import Answer, CallFailed

_OK: Final = range(200, 207)
_FIRST_SERVER_ERROR: Final = 500
#: What a client makes of a response that is not a Status, by its code; see `errors.NewGenericServerResponse`.
_GENERIC: Final[Mapping[int, str]] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
#: Of these the body is the message.
_SAID: Final = frozenset({403, 406, 415})
_MOST_SHOWN_BYTES: Final = 2048


class Kinds(NamedTuple):
    """The kind of a review, and the versions in which it is known."""

    kind: str
    api_versions: Sequence[str]


def decoded(answer: Answer, kinds: Kinds, which: str) -> Any:
    """A response to a review of version `which`, as values; CallFailed or Unreadable if it is an error."""
    code, content_type = answer.code, answer.content_type
    if code not in _OK:
        raise CallFailed(failure(code, content_type, answer.body))
    if not answer.body:
        shown = content_type or "application/json"
        raise CallFailed(f"0-length response with status code: {code} and content type: {shown}")
    try:
        said = bodies.parse_json(answer.body, find_duplicates=False).value
    except bodies.Unreadable as error:
        raise CallFailed(f"couldn't get version/kind; {error}") from None
    if isinstance(said, dict):
        _check_type(said, kinds, which)
    return said


def _check_type(said: Mapping[str, Any], kinds: Kinds, which: str) -> None:
    """CallFailed if the response is of another kind than was asked for; one that names no kind is checked later."""
    api_version, kind = said.get("apiVersion"), said.get("kind")
    if not kind or not api_version:
        return
    if kind != kinds.kind or api_version not in kinds.api_versions:
        quoted = gotext.quote(str(api_version))
        raise CallFailed(f"no kind {gotext.quote(str(kind))} is registered for version {quoted}")
    version = str(api_version).rpartition("/")[2]
    if version != which:
        raise CallFailed(f"converting ({version}.{kind}) to ({which}.{kind}): unknown conversion")


def failure(code: int, content_type: str, body: bytes) -> str:
    """What went wrong, by a response that is not a success."""
    try:
        status = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status" and status.get("status") == "Failure":
        return str(status.get("message") or "")
    is_text = content_type.partition(";")[0].strip().lower().startswith("text/") or not content_type
    said = body[:_MOST_SHOWN_BYTES].decode(errors="replace").strip() if is_text else "unknown"
    if code in _SAID:
        return said
    if code in _GENERIC:
        return _GENERIC[code]
    if code >= _FIRST_SERVER_ERROR:
        return f"an error on the server ({gotext.quote(said)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"
