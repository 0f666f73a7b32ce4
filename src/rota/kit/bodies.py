"""Bodies of HTTP answers from other servers, read whole and within a limit."""

from typing import Protocol


class Readable(Protocol):
    """What a body is read from, in parts; an empty part is the end."""

    async def readany(self) -> bytes:
        """The next part."""


async def read(content: Readable, most_bytes: int) -> bytes:
    """The whole body; ValueError if it is longer than `most_bytes`.

    A single `read(n)` of aiohttp returns what has arrived so far, which may be a part.
    """
    found = bytearray()
    while part := await content.readany():
        found += part
        if len(found) > most_bytes:
            raise ValueError(f"the answer has more than {most_bytes} bytes")
    return bytes(found)
