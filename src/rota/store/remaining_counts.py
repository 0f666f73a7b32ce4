"""What is left of lists behind the pages that were given out, so that it is counted for the first page only.

A revision's view never changes: behind a page there is what was behind the one before it, less the page. Databases
count by going through what they count, so a list would otherwise cost the square of its pages. Bounded; what was
forgotten is counted again.
"""

from typing import Final

#: Pages that are remembered, the newest ones.
_PAGES: Final = 1000


class RemainingCounts:
    """By prefix, revision and the last key of a page: how many entries follow it."""

    def __init__(self) -> None:
        self._left: Final[dict[tuple[str, int, str], int]] = {}

    def behind(self, prefix: str, revision: int, after: str) -> int | None:
        """How many entries follow a key; None if that is not known."""
        return self._left.get((prefix, revision, after))

    def remember(self, prefix: str, revision: int, *, after: str, left: int) -> None:
        """So many follow a page that ends with a key."""
        if len(self._left) >= _PAGES:
            del self._left[next(iter(self._left))]
        self._left[prefix, revision, after] = left
