"""Shapes of pods by their bytes, so that pods that differ only in identity, node and times are not decoded again.

The bytes of a pod are its metadata, then its spec and its status. Pods of one template share spec and status to the
byte, except for the name of their node, so these are decoded once. Only the metadata, which is short, is decoded for
each pod. The status of a running pod is unlike others; such a pod is decoded as a whole.
"""

from typing import Final, NamedTuple

import msgspec

from rota.api import gpu_devices
from rota.columns import objects
from rota.columns.pods import PodInfo, PodShape

#: Where the spec of a pod begins, and where in it the name of the node.
_REST: Final = b',"spec":{'
_NODE: Final = b'"nodeName":"'
_PROBE: Final = "probe-of-a-node"
#: Number and maximum size of entries: some megabytes in total.
_MOST: Final = 2048
_LARGEST: Final = 4096
_MOST_ONCE: Final = 8192


class _Head(msgspec.Struct, gc=False):
    metadata: objects.ObjectMeta


class _Spec(msgspec.Struct, gc=False):
    nodeName: str | None = None  # noqa: N815 - the wire's name


class _Placed(msgspec.Struct, gc=False):
    spec: _Spec


_head: Final = msgspec.json.Decoder(_Head).decode
_placed: Final = msgspec.json.Decoder(_Placed).decode
_encode: Final = msgspec.msgpack.Encoder().encode


class Parts(NamedTuple):
    """The bytes of a pod, split."""

    key: tuple[bytes, bytes, bytes]
    metadata: objects.ObjectMeta
    node: bytes


class ShapeCache:
    """Shapes of pods by their bytes."""

    def __init__(self) -> None:
        self._known: Final[dict[tuple[bytes, bytes, bytes], PodShape]] = {}
        #: Hashes of what was seen once: most of it does not occur again.
        self._once: Final[set[int]] = set()

    def split(self, raw: bytes) -> Parts | None:
        """Split a pod's bytes into identity and shared part; None if it cannot be cached."""
        at = raw.find(_REST)
        if at < 0 or len(raw) - at > _LARGEST:
            return None
        before, name_begins, after = raw[at:].partition(_NODE)
        node = b""
        if name_begins:
            node, _, after = after.partition(b'"')
            if b"\\" in node:
                return None
        try:
            # The bytes before the spec are complete JSON with this brace, or this is not where the spec begins.
            metadata = _head(raw[:at] + b"}").metadata
        except msgspec.MsgspecError:
            return None
        owner = next((one for one in metadata.ownerReferences or () if one.controller), None)
        about = (metadata.namespace, metadata.labels, owner, metadata.deletionTimestamp is not None, bool(name_begins))
        return Parts((before, after, _encode(about)), metadata, node)

    def find(self, parts: Parts, raw: bytes) -> PodInfo | None:
        """The pod, if an equal one was cached."""
        shape = self._known.get(parts.key)
        metadata = parts.metadata
        if shape is None or not metadata.uid:
            return None
        node = parts.node.decode()
        return PodInfo(
            uid=metadata.uid,
            name=metadata.name,
            shape=shape,
            node_name=node,
            gpu_devices=gpu_devices.of_annotations(metadata.annotations) if node else (),
            kept=None if node else raw,
        )

    def learn(self, parts: Parts, info: PodInfo) -> None:
        """Cache a pod that was decoded as a whole; skipped if it has more than its shape."""
        number = hash(parts.key)
        if number not in self._once:
            if len(self._once) >= _MOST_ONCE:
                self._once.clear()
            self._once.add(number)
            return
        if info.nominated_node or info.start_time or info.preempted or not _is_node_of_spec(parts, info):
            return
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[parts.key] = info.shape


def _is_node_of_spec(parts: Parts, info: PodInfo) -> bool:
    """Whether the name that was cut out is that of the pod's node."""
    before, after, _ = parts.key
    if not parts.node:
        return not info.node_name and _NODE not in before
    probed = _placed(b"{" + before[1:] + _NODE + _PROBE.encode() + b'"' + after)
    return probed.spec.nodeName == _PROBE and info.node_name.encode() == parts.node
