"""Objects read once for all informers of a process.

The parts of a master each follow pods with an informer of their own, and so get the same bytes one after the other.
What is remembered here they read once, and have in memory once. Nobody may change what an informer gives, since then
others would see it.
"""

import functools
from typing import Any, Final

from rota.api import codec

#: As many changes as a slow part may be behind a fast one.
_REMEMBERED: Final = 256


@functools.lru_cache(maxsize=_REMEMBERED)
def shared(raw: bytes) -> dict[str, Any]:
    """The object of these bytes, the same one for everybody."""
    return codec.decode(raw)
