"""Byte templates for status updates of pods that repeat those of other pods.

The result of a status update is a function of the pod's bytes, the status' bytes, the user with its field manager, and
the time: no rule about statuses reads anything else. That function treats a pod's name, its uid, the node that writes
and timestamps as opaque literals: it copies, compares and sorts them, and never interprets them. So the result is the
same for a pod with another name and other times, as long as the same literals are equal and the times are in the same
order. Pods of one template in the same state differ in nothing else, so the result of one is filled in for the next.

Literals are found as whole strings (names and times) or by their form (uids). All other bytes are part of the cache
key; so an unusual pod gets its own entry by the usual path. The usual path is also taken if a literal is where it would
be interpreted: as the name of a field, or as an invalid time.
"""

import re
from collections.abc import Hashable
from datetime import datetime
from typing import Final, NamedTuple

from rota.api import times

#: Number and size of templates: some megabytes at most.
_MOST: Final = 512
_LARGEST: Final = 16_384
_MOST_TIMES: Final = 64
#: Placeholders of literals; JSON has none of these characters outside of its escapes.
_NAME: Final = b"\x00"
_UID: Final = b"\x01"
_NODE: Final = b"\x02"
_TIME: Final = b"\x03"
#: Names that are not escaped in JSON, and that look like no other value: addresses and quantities begin otherwise.
_PLAIN_NAME: Final = re.compile(r"[a-z](?:[-.a-z0-9]{0,251}[a-z0-9])?")
#: Where such a literal is not a value but the name of a field or the key of a map.
_FIELDS: Final = (re.compile(rb'\x00"\s*:'), re.compile(rb'\x02"\s*:'))
_PLAIN_UID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_TIME_FORM: Final = re.compile(rb'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d')
_TIME_LENGTH: Final = len('"2006-01-02T15:04:05')
#: The end of a time with a fraction, which does not sort by its characters.
_FRACTION: Final = re.compile(rb".*:\d\d\.\d+", re.DOTALL)
_FRACTION_LENGTH: Final = len(":05.999999999")


class StatusUpdate(NamedTuple):
    """A status and its pod, split into the common part and the literals."""

    key: Hashable
    words: "_Literals"
    #: All times that occur, in order.
    times: tuple[bytes, ...]


class _Literals(NamedTuple):
    """The literals besides times; the node is empty if the writer is not a node."""

    name: bytes
    uid: bytes
    node: bytes


class _StatusTemplate(NamedTuple):
    """A pod's new bytes with gaps, and for each gap the index of its time."""

    pieces: tuple[bytes, ...]
    places: tuple[int, ...]


class StatusTemplateCache:
    """The templates of status updates."""

    def __init__(self) -> None:
        self._known: Final[dict[Hashable, _StatusTemplate]] = {}

    def case(
        self, value: bytes, patch: bytes, *, name: str, uid: str, node: str | None, by: Hashable, now: float
    ) -> StatusUpdate | None:
        """Split a pod's stored bytes and the patch; None if they cannot be cached.

        `uid` is the precondition of the patch, `node` the writer if it is a node; `by` stands for everything else about
        the user and its field manager.
        """
        if len(value) + len(patch) > _LARGEST or b'"resourceVersion"' in patch:
            return None
        plain = all(_PLAIN_NAME.fullmatch(word) for word in (name, node or "n"))
        if not plain or _PLAIN_UID.fullmatch(uid) is None or name == node:
            return None
        words = _Literals(name.encode(), uid.encode(), (node or "").encode())
        old, old_times = _apart(value, words)
        new, new_times = _apart(patch, words)
        if old is None or new is None or not all(map(_is_timestamp, set(new_times))):
            return None
        moment = times.format_time(now).encode()[:-1]
        every = tuple(sorted({*old_times, *new_times, moment}))
        if len(every) > _MOST_TIMES:
            return None
        place = {time: at for at, time in enumerate(every)}
        order = bytes([place[time] for time in (*old_times, *new_times, moment)])
        return StatusUpdate((by, node is None, old, new, order), words, every)

    def printed(self, case: StatusUpdate) -> bytes | None:
        """The pod's new stored bytes; None if there is no template."""
        known = self._known.get(case.key)
        if known is None:
            return None
        pieces = list(known.pieces)
        pieces[1::2] = [case.times[place] for place in known.places]
        name, uid, node = case.words
        return b"".join(pieces).replace(_UID, uid).replace(_NAME, name).replace(_NODE, node)

    def learn(self, case: StatusUpdate, value: bytes) -> None:
        """These are the pod's new bytes by the usual path, without warnings."""
        made = _status_template(case, value)
        if made is not None:
            if len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            self._known[case.key] = made


def _apart(value: bytes, words: _Literals) -> tuple[bytes | None, list[bytes]]:
    """Bytes without their literals, and the times among those; no bytes if that is not possible."""
    if _NAME in value or _UID in value or _NODE in value or _TIME in value:
        return None, []
    plain = value.replace(words.uid, _UID).replace(b'"%b"' % words.name, b'"%b"' % _NAME)
    if words.node:
        plain = plain.replace(b'"%b"' % words.node, b'"%b"' % _NODE)
    if any(field.search(plain) for field in _FIELDS):
        return None, []
    pieces = plain.split(b'Z"')
    found = []
    for at in range(len(pieces) - 1):
        piece = pieces[at]
        if _TIME_FORM.fullmatch(piece, max(len(piece) - _TIME_LENGTH, 0)):
            found.append(piece[1 - _TIME_LENGTH :])
            pieces[at] = piece[: 1 - _TIME_LENGTH] + _TIME
        elif _FRACTION.fullmatch(piece, max(len(piece) - _FRACTION_LENGTH, 0)):
            return None, []
    return b'Z"'.join(pieces), found


def _is_timestamp(time: bytes) -> bool:
    try:
        datetime.fromisoformat(time.decode())
    except ValueError:
        return False
    return True


def _status_template(case: StatusUpdate, value: bytes) -> _StatusTemplate | None:
    plain, found = _apart(value, case.words)
    # a new time that was in neither input has an unknown origin
    if plain is None or not set(found) <= set(case.times):
        return None
    literals = plain.split(_TIME)
    places = tuple(case.times.index(time) for time in found)
    pieces = [b""] * (2 * len(literals) - 1)
    pieces[::2] = literals
    return _StatusTemplate(tuple(pieces), places)
