"""Sets of completion indexes as intervals: a Job's status writes them as `1,3-5,7`. Pure values."""

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple


class _Span(NamedTuple):
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Indexes:
    """A sorted set of indexes; intervals neither touch nor overlap."""

    spans: tuple[_Span, ...] = ()

    @staticmethod
    def of(numbers: Iterable[int]) -> "Indexes":
        """A set of single indexes."""
        return _merged(_Span(one, one) for one in numbers)

    @staticmethod
    def parse(text: str, *, below: int) -> "Indexes":
        """The set in a status, without unparsable entries and indexes beyond the number of completions."""
        return _merged(_spans(text, below))

    def __len__(self) -> int:
        return sum(span.last - span.first + 1 for span in self.spans)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        position = bisect.bisect_right(self.spans, index, key=lambda span: span.first) - 1
        return position >= 0 and self.spans[position].last >= index

    def __or__(self, other: "Indexes") -> "Indexes":
        return _merged((*self.spans, *other.spans))

    def __and__(self, other: "Indexes") -> "Indexes":
        found = []
        for mine in self.spans:
            for theirs in other.spans:
                first, last = max(mine.first, theirs.first), min(mine.last, theirs.last)
                if first <= last:
                    found.append(_Span(first, last))
        return _merged(found)

    def missing(self, *, below: int) -> Iterator[int]:
        """The indexes that are not in the set, lowest first."""
        candidate = 0
        for span in self.spans:
            yield from range(candidate, min(span.first, below))
            candidate = span.last + 1
        yield from range(candidate, below)

    def __str__(self) -> str:
        parts = []
        for first, last in self.spans:
            parts.append(str(first))
            if last > first:
                parts[-1] += f",{last}" if last == first + 1 else f"-{last}"
        return ",".join(parts)


NONE: Final = Indexes()


def _spans(text: str, below: int) -> Iterator[_Span]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last.isdecimal() or not last) and int(first) < below:
            yield _Span(int(first), min(int(last or first), below - 1))


def _merged(spans: Iterable[_Span]) -> Indexes:
    found: list[_Span] = []
    for span in sorted(spans):
        if found and span.first <= found[-1].last + 1:
            found[-1] = _Span(found[-1].first, max(found[-1].last, span.last))
        elif span.first <= span.last:
            found.append(span)
    return Indexes(tuple(found))
