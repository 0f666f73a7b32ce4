"""Byte templates for new pods that differ from earlier ones in their name only.

Creating a thousand pods from one template sends the same body a thousand times, except for the name. If everything
around the name has been seen before, byte for byte, then the result is the same too: defaults, admission, validation
and managed fields depend on the body, on the user and its field manager, and on rules that may change, which the
`interfaces.AdmissionFingerprint` covers. Then only the name, a new uid and the time are written into the gaps of the
earlier stored bytes.

A template is kept when a body arrives for the second time. Only bodies without any error or warning are kept, and only
if the bytes with another name in the gap are verified to differ in the name only.
"""

import re
from typing import Any, Final, NamedTuple

import msgspec

from rota.api import times
from rota.apiserver.interfaces import AdmissionFingerprint, Attributes

#: Number and size of templates: some megabytes at most.
_MOST: Final = 512
_LARGEST: Final = 8192
_MOST_ONCE: Final = 8192
_NAME: Final = b'"name":"'
#: Names that are valid for every kind, cause no warning and are not escaped in JSON.
_PLAIN: Final = re.compile(rb"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
#: A name of this form that no object has.
_PROBE: Final = "0-probe-of-a-name-0"
_MARK: Final = re.compile(rb"@@rota:(name|uid|time)@@")

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder().encode

_Key = tuple[str, str, str, bytes, bytes]


class CreateTemplate(NamedTuple):
    """A body split into its common part and its name."""

    key: _Key
    name: bytes


class _CachedTemplate:
    """The stored bytes of a pod with gaps."""

    __slots__ = ("admission_fingerprint", "names", "pieces", "times", "uids")

    def __init__(self, value: bytes, admission_fingerprint: AdmissionFingerprint) -> None:
        found = _MARK.split(value)
        self.pieces: Final = found
        self.admission_fingerprint: Final = admission_fingerprint
        #: The gaps by their index in `pieces`.
        self.names: Final = [at for at in range(1, len(found), 2) if found[at] == b"name"]
        self.uids: Final = [at for at in range(1, len(found), 2) if found[at] == b"uid"]
        self.times: Final = [at for at in range(1, len(found), 2) if found[at] == b"time"]

    def filled(self, *, name: bytes, uid: bytes, time: bytes) -> bytes:
        """The stored bytes of another pod."""
        pieces = self.pieces.copy()
        for at in self.names:
            pieces[at] = name
        for at in self.uids:
            pieces[at] = uid
        for at in self.times:
            pieces[at] = time
        return b"".join(pieces)


class CreateTemplateCache:
    """The templates of new pods."""

    def __init__(self) -> None:
        self._known: Final[dict[_Key, _CachedTemplate]] = {}
        #: Bodies that were seen once, by their hash: most never come again.
        self._once: Final[set[int]] = set()

    def create_template(self, at: Attributes, body: bytes, content_type: str) -> CreateTemplate | None:
        """The common part of `body`; None if it cannot be a template."""
        start = body.find(_NAME)
        if start < 0 or at.dry_run or len(body) > _LARGEST:
            return None
        start += len(_NAME)
        end = body.find(b'"', start)
        name = body[start:end]
        if _PLAIN.fullmatch(name) is None:
            return None
        return CreateTemplate((at.namespace, at.field_manager, content_type, body[:start], body[end:]), name)

    def fill_template(
        self, create_template: CreateTemplate, admission_fingerprint: AdmissionFingerprint, *, uid: str, now: float
    ) -> bytes | None:
        """The stored bytes of the pod; None if there is no template."""
        template = self._known.get(create_template.key)
        if template is None or template.admission_fingerprint != admission_fingerprint:
            return None
        return template.filled(name=create_template.name, uid=uid.encode(), time=times.format_time(now).encode())

    def learn(self, create_template: CreateTemplate, admission_fingerprint: AdmissionFingerprint, value: bytes) -> None:
        """A pod was stored as `value` under this fingerprint, by the usual path and without warnings."""
        key = create_template.key
        if key not in self._known:
            number = hash(key)
            if number not in self._once:
                if len(self._once) >= _MOST_ONCE:
                    self._once.clear()
                self._once.add(number)
                return
        template = _cached_template(create_template, admission_fingerprint, value)
        if template is not None:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = template


def _cached_template(
    create_template: CreateTemplate, admission_fingerprint: AdmissionFingerprint, value: bytes
) -> _CachedTemplate | None:
    if not _is_name_of_metadata(create_template) or _MARK.search(value):
        return None
    obj = _decode(value)
    metadata, spec = obj["metadata"], obj["spec"]
    # for a pod with a node, admission depends on the node's free resources
    if _encode(obj) != value or spec.get("nodeName"):
        return None
    name, uid, time = metadata["name"], metadata["uid"], metadata["creationTimestamp"]
    owners = metadata.get("managedFields") or []
    # times and uids in other places would have to differ in another pod
    if value.count(time.encode()) != 1 + len(owners) or value.count(uid.encode()) != 1:
        return None
    metadata |= {"name": "@@rota:name@@", "uid": "@@rota:uid@@", "creationTimestamp": "@@rota:time@@"}
    for owner in owners:
        owner["time"] = "@@rota:time@@"
    template = _CachedTemplate(_encode(obj), admission_fingerprint)
    same = template.filled(name=name.encode(), uid=uid.encode(), time=time.encode())
    return template if same == value else None


def _is_name_of_metadata(create_template: CreateTemplate) -> bool:
    """Whether the gap of a body is the object's name, and nothing else."""
    before, after = create_template.key[-2:]
    try:
        given, probed = _decode(before + create_template.name + after), _decode(before + _PROBE.encode() + after)
    except (msgspec.MsgspecError, ValueError):
        return False  # not JSON, but another format
    if probed["metadata"].get("name") != _PROBE:
        return False
    probed["metadata"]["name"] = create_template.name.decode()
    return bool(probed == given)
