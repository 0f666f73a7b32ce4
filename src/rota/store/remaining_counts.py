"""The number of entries after a page of a list, so that entries are counted for the first page only.

The state at a revision never changes: the entries after a page are those after the previous page, less the page.
Databases count by scanning, so the cost of a list would otherwise be quadratic in its pages. Bounded; a forgotten
number is counted again.
"""

from typing import Final

#: How many pages are remembered, the newest ones.
_PAGES: Final = 1000


class RemainingCounts:
    """By prefix, revision and the last key of a page: how many entries follow it."""

    def __init__(self) -> None:
        self._left: Final[dict[tuple[str, int, str], int]] = {}

    def behind(self, prefix: str, revision: int, after: str) -> int | None:
        """How many entries follow a key; None if unknown."""
        return self._left.get((prefix, revision, after))

    def remember(self, prefix: str, revision: int, *, after: str, left: int) -> None:
        """Remember how many entries follow a page that ends with a key."""
        if len(self._left) >= _PAGES:
            del self._left[next(iter(self._left))]
        self._left[prefix, revision, after] = left
