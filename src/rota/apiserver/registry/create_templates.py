"""New pods that differ from earlier ones in nothing but their name: their bytes are put together, not worked out.

Whoever makes a thousand pods from one template sends the same body a thousand times, but for the name in it. If
everything around that name has been seen before, letter for letter, then so has all that follows from it: what is
defaulted, admitted, validated and recorded about it depends on the body, on who sends it as which field manager, and
on rules that may change, which `contract.AdmissionFingerprint` stands for. What is left to do is to write the name, a
new uid and the time into the gaps of the bytes that were stored before.

A body is remembered when it comes for the second time. Only what was let in without any complaint is, and only where
bytes with another name in their gap are found to say the same but for the name.
"""

import re
from typing import Any, Final, NamedTuple

import msgspec

from rota.api import times
from rota.apiserver.interfaces import AdmissionFingerprint, Attributes

#: How many are remembered, and how large one may be: some megabytes at most.
_MOST: Final = 512
_LARGEST: Final = 8192
_MOST_ONCE: Final = 8192
_NAME: Final = b'"name":"'
#: Names that are valid for every kind, give no reason to warn and look the same in JSON.
_PLAIN: Final = re.compile(rb"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
#: A name of this form that nobody has.
_PROBE: Final = "0-probe-of-a-name-0"
_MARK: Final = re.compile(rb"@@rota:(name|uid|time)@@")

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder().encode

_Key = tuple[str, str, str, bytes, bytes]


class CreateTemplate(NamedTuple):
    """A body taken apart: what it has in common with others, and its name."""

    key: _Key
    name: bytes


class _CachedTemplate:
    """The stored bytes of a pod with gaps."""

    __slots__ = ("admission_fingerprint", "names", "pieces", "times", "uids")

    def __init__(self, value: bytes, admission_fingerprint: AdmissionFingerprint) -> None:
        found = _MARK.split(value)
        self.pieces: Final = found
        self.admission_fingerprint: Final = admission_fingerprint
        #: Where in `pieces` which gap is.
        self.names: Final = [at for at in range(1, len(found), 2) if found[at] == b"name"]
        self.uids: Final = [at for at in range(1, len(found), 2) if found[at] == b"uid"]
        self.times: Final = [at for at in range(1, len(found), 2) if found[at] == b"time"]

    def filled(self, *, name: bytes, uid: bytes, time: bytes) -> bytes:
        """The stored bytes of another one."""
        pieces = self.pieces.copy()
        for at in self.names:
            pieces[at] = name
        for at in self.uids:
            pieces[at] = uid
        for at in self.times:
            pieces[at] = time
        return b"".join(pieces)


class CreateTemplateCache:
    """What is remembered of new pods."""

    def __init__(self) -> None:
        self._known: Final[dict[_Key, _CachedTemplate]] = {}
        #: Bodies that came once, by their hash: most never come again.
        self._once: Final[set[int]] = set()

    def create_template(self, at: Attributes, body: bytes, content_type: str) -> CreateTemplate | None:
        """What `body` has in common with others; None if it is nothing that could be remembered."""
        start = body.find(_NAME)
        if start < 0 or at.dry_run or len(body) > _LARGEST:
            return None
        start += len(_NAME)
        end = body.find(b'"', start)
        name = body[start:end]
        if _PLAIN.fullmatch(name) is None:
            return None
        return CreateTemplate((at.namespace, at.field_manager, content_type, body[:start], body[end:]), name)

    def cast(
        self, create_template: CreateTemplate, admission_fingerprint: AdmissionFingerprint, *, uid: str, now: float
    ) -> bytes | None:
        """The stored bytes of the pod; None if it has to be worked out."""
        casting = self._known.get(create_template.key)
        if casting is None or casting.admission_fingerprint != admission_fingerprint:
            return None
        return casting.filled(name=create_template.name, uid=uid.encode(), time=times.format_time(now).encode())

    def learn(self, create_template: CreateTemplate, admission_fingerprint: AdmissionFingerprint, value: bytes) -> None:
        """A pod was stored as `value` while rules stood as they do; it was worked out, without complaints."""
        key = create_template.key
        if key not in self._known:
            number = hash(key)
            if number not in self._once:
                if len(self._once) >= _MOST_ONCE:
                    self._once.clear()
                self._once.add(number)
                return
        casting = _cached_template(create_template, admission_fingerprint, value)
        if casting is not None:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = casting


def _cached_template(
    create_template: CreateTemplate, admission_fingerprint: AdmissionFingerprint, value: bytes
) -> _CachedTemplate | None:
    if not _is_name_of_metadata(create_template) or _MARK.search(value):
        return None
    obj = _decode(value)
    metadata, spec = obj["metadata"], obj["spec"]
    # what is sold to a pod with a node depends on what that node has left
    if _encode(obj) != value or spec.get("nodeName"):
        return None
    name, uid, time = metadata["name"], metadata["uid"], metadata["creationTimestamp"]
    owners = metadata.get("managedFields") or []
    # times and uids that stand elsewhere would have to be others in another pod
    if value.count(time.encode()) != 1 + len(owners) or value.count(uid.encode()) != 1:
        return None
    metadata |= {"name": "@@rota:name@@", "uid": "@@rota:uid@@", "creationTimestamp": "@@rota:time@@"}
    for owner in owners:
        owner["time"] = "@@rota:time@@"
    casting = _CachedTemplate(_encode(obj), admission_fingerprint)
    same = casting.filled(name=name.encode(), uid=uid.encode(), time=time.encode())
    return casting if same == value else None


def _is_name_of_metadata(create_template: CreateTemplate) -> bool:
    """Whether what stands in the gap of a body is the object's name, and nothing else."""
    before, after = create_template.key[-2:]
    try:
        given, probed = _decode(before + create_template.name + after), _decode(before + _PROBE.encode() + after)
    except (msgspec.MsgspecError, ValueError):
        return False  # no JSON, but something else that was understood
    if probed["metadata"].get("name") != _PROBE:
        return False
    probed["metadata"]["name"] = create_template.name.decode()
    return bool(probed == given)
