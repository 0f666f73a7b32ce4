"""The client's side of SPDY: frames as kubectl makes them."""

import struct
import zlib

from rota.worker.endpoint import spdy


class Client:
    """Makes frames; headers are packed one after the other."""

    def __init__(self) -> None:
        self._packing = zlib.compressobj(9, zdict=spdy.DICTIONARY)

    def open(self, stream: int, last: bool = False, **headers: str) -> bytes:
        block = struct.pack("!I", len(headers))
        for text in (part for pair in headers.items() for part in pair):
            block += struct.pack("!I", len(text.encode())) + text.encode()
        return self.packed(stream, block, last)

    def packed(self, stream: int, block: bytes, last: bool = False) -> bytes:
        packed = self._packing.compress(block) + self._packing.flush(zlib.Z_SYNC_FLUSH)
        content = struct.pack("!IIH", stream, 0, 0) + packed
        return struct.pack("!II", 0x80030001, last << 24 | len(content)) + content
