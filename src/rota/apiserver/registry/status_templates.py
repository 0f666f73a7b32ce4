"""Statuses of pods that go the way of others: the pods' new bytes are put together, not worked out.

What a status makes of a pod is a function of the pod's bytes, the status' bytes, who writes as which field manager, and
the time: no rule about statuses looks at anything else. That function treats a pod's name, its uid, the node that
writes and points in time as words: it copies them, compares them and sorts by them, and never asks what they say. So
it is the same for a pod with another name and other times, as long as the same words are equal and the same times are
earlier. Pods of one template that do the same thing differ in nothing else, and what was worked out for one of them is
filled in for the next.

Words are found where they stand as whole strings (names and times) or by their own form (uids). All else is part of
what is remembered, letter for letter; so whatever is unusual about a pod makes it a case of its own, which is worked
out. So is what has a word where it would be asked what it says: as the name of a field, or as a time that there is not.
"""

import re
from collections.abc import Hashable
from datetime import datetime
from typing import Final, NamedTuple

from rota.api import times

#: How many cases are remembered, and how large one may be: some megabytes at most.
_MOST: Final = 512
_LARGEST: Final = 16_384
_MOST_TIMES: Final = 64
#: What stands in for words; JSON has none of these outside of its escapes.
_NAME: Final = b"\x00"
_UID: Final = b"\x01"
_NODE: Final = b"\x02"
_TIME: Final = b"\x03"
#: Names that look the same in JSON, and like nothing else that is written there: addresses and amounts begin otherwise.
_PLAIN_NAME: Final = re.compile(r"[a-z](?:[-.a-z0-9]{0,251}[a-z0-9])?")
#: Where such a word is no value but the name of a field, or of an entry of a map.
_FIELDS: Final = (re.compile(rb'\x00"\s*:'), re.compile(rb'\x02"\s*:'))
_PLAIN_UID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_TIME_FORM: Final = re.compile(rb'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d')
_TIME_LENGTH: Final = len('"2006-01-02T15:04:05')
#: The end of a time with a fraction, which is not in the order of its letters.
_FRACTION: Final = re.compile(rb".*:\d\d\.\d+", re.DOTALL)
_FRACTION_LENGTH: Final = len(":05.999999999")


class StatusUpdate(NamedTuple):
    """A status and its pod, taken apart: what they have in common with others, and their words."""

    key: Hashable
    words: "_Literals"
    #: All times that occur, in their order.
    times: tuple[bytes, ...]


class _Literals(NamedTuple):
    """What is no time; the node is empty if it is not a node that writes."""

    name: bytes
    uid: bytes
    node: bytes


class _StatusTemplate(NamedTuple):
    """A pod's new bytes with gaps, and the places of the times that go there among all of the case."""

    pieces: tuple[bytes, ...]
    places: tuple[int, ...]


class StatusTemplateCache:
    """What is remembered of statuses."""

    def __init__(self) -> None:
        self._known: Final[dict[Hashable, _StatusTemplate]] = {}

    def case(
        self, value: bytes, patch: bytes, *, name: str, uid: str, node: str | None, by: Hashable, now: float
    ) -> StatusUpdate | None:
        """A pod's stored bytes and what is to be merged into them, taken apart; None if that cannot be remembered.

        `uid` is the one that the patch insists on, `node` the one that writes, if it is one; `by` stands for what else
        there is to know about who writes and how.
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
        """The pod's new stored bytes; None if they have to be worked out."""
        known = self._known.get(case.key)
        if known is None:
            return None
        pieces = list(known.pieces)
        pieces[1::2] = [case.times[place] for place in known.places]
        name, uid, node = case.words
        return b"".join(pieces).replace(_UID, uid).replace(_NAME, name).replace(_NODE, node)

    def learn(self, case: StatusUpdate, value: bytes) -> None:
        """This was worked out to be the pod's new bytes, without complaints."""
        made = _status_template(case, value)
        if made is not None:
            if len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            self._known[case.key] = made


def _apart(value: bytes, words: _Literals) -> tuple[bytes | None, list[bytes]]:
    """Bytes without their words, and the times among those; no bytes if they hold something that is in the way."""
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
    # a time that was in neither is not the case's, so nobody knows where another one's is from
    if plain is None or not set(found) <= set(case.times):
        return None
    literals = plain.split(_TIME)
    places = tuple(case.times.index(time) for time in found)
    pieces = [b""] * (2 * len(literals) - 1)
    pieces[::2] = literals
    return _StatusTemplate(tuple(pieces), places)
