"""resourceVersions and continue tokens: which revision of the store they mean.

A resourceVersion is the store's revision as a decimal number. A continue token has the revision of the first page and
the last key; one with revision -1 continues inconsistently, at the newest revision. `reach` waits for a
revision that this server does not know yet.
"""

import base64
import binascii
from typing import Final

import msgspec

from rota.api import errors, gotext
from rota.kit.clock import Clock
from rota.store.store_interface import Store

#: How long a client with a later revision waits for this server to catch up.
PATIENCE_S: Final = 3.0
_TOKEN_VERSION: Final = "meta.k8s.io/v1"  # noqa: S105 - the version of a format
_UINT64: Final = range(2**64)
#: A token that is not bound to the revision of the first page.
INCONSISTENT: Final = -1

CONTINUE_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
LIST_TOO_OLD: Final = "The resourceVersion for the provided list is too old."


class ContinueToken(msgspec.Struct, frozen=True):
    """Where the next page begins."""

    revision: int = msgspec.field(name="rv")
    #: The last key of the page before, without the list's prefix.
    start: str
    version: str = msgspec.field(name="v", default=_TOKEN_VERSION)

    def encode(self) -> str:
        """The opaque text that clients send back."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).rstrip(b"=").decode()


def parse(text: str) -> int:
    """The revision of a resourceVersion; 0 for none and for "any". BadRequest if it is not a number."""
    if not text:
        return 0
    if not text.isascii() or not text.isdecimal():
        raise _unparsable(text, "invalid syntax")
    number = int(text) if len(text) <= 20 else 2**64
    if number not in _UINT64:
        raise _unparsable(text, "value out of range")
    return number


def parse_continue(token: str) -> ContinueToken:
    """Parse a token; BadRequest if it is invalid."""
    try:
        decoded = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        parsed = msgspec.json.decode(decoded, type=ContinueToken)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise errors.bad_request(f"continue key is not valid: {error}") from None
    if parsed.version != _TOKEN_VERSION:
        raise errors.bad_request("continue key is not valid: server does not recognize this encoded version")
    if parsed.revision == 0 or parsed.revision < INCONSISTENT:
        raise errors.bad_request("continue key is not valid: incorrect encoded start resourceVersion")
    if not parsed.start or parsed.start.startswith("/") or ".." in parsed.start.split("/"):
        raise errors.bad_request("continue key is not valid: encoded start key empty or outside of the list")
    return parsed


def _unparsable(text: str, why: str) -> errors.BadRequest:
    quoted = gotext.quote(text)
    return errors.bad_request(
        f"invalid resource version: resourceVersion: Invalid value: {quoted}: "
        f"strconv.ParseUint: parsing {quoted}: {why}"
    )


_LOOK_EVERY_S: Final = 0.1


async def reach(store: Store, revision: int, clock: Clock) -> None:
    """Return once the store has reached a revision; Timeout (cause ResourceVersionTooLarge) if that takes too long."""
    deadline = clock.monotonic() + PATIENCE_S
    while True:
        newest = (await store.revision_range()).revision
        if newest >= revision:
            return
        if clock.monotonic() >= deadline:
            raise errors.resource_version_too_large(revision, newest)
        await clock.sleep(_LOOK_EVERY_S)
