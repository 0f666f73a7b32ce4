"""Matching regular expressions in time that grows with the text and nothing else, as RE2 does.

Schemas come from whoever may define kinds, texts from whoever may write objects; a matcher that goes back and tries
again can be kept busy for years by the two. This one follows all possibilities at once, one character at a time, and
remembers which set of possibilities follows from which, so that texts like former ones take one lookup for each
character.
"""

import functools
from typing import Final

from rota.apiserver.custom import expressions
from rota.apiserver.custom.characters import WORDS, Characters
from rota.apiserver.custom.expressions import Choice, Node, PatternError, Position, Repeat, Sequence, Single

__all__ = ["Pattern", "PatternError", "compile_pattern"]

#: Repetitions are written out; an expression beyond this would take long to follow.
_MOST_STATES: Final = 10_000
#: What one expression may remember before it starts anew.
_MOST_MEMORIES: Final = 20_000
_END: Final = ""
_MATCHED: Final = -1


@functools.lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> "Pattern":
    """An expression of RE2's syntax; PatternError if it is none."""
    return Pattern(pattern)


class Pattern:
    """A compiled expression."""

    def __init__(self, pattern: str) -> None:
        self._program: Final = _Program(pattern)
        #: Sets of possibilities with what came before them, by number; number 0 is the beginning.
        self._states: Final[list[tuple[frozenset[int], str]]] = []
        self._numbers: Final[dict[tuple[frozenset[int], str], int]] = {}
        self._memory: Final[dict[tuple[int, str], int]] = {}
        self._forget()

    def search(self, text: str) -> bool:
        """Whether the expression matches anywhere in a text."""
        memory, state = self._memory, 0
        for character in text:
            following = memory.get((state, character))
            state = self._follow(state, character) if following is None else following
            if state == _MATCHED:
                return True
        following = memory.get((state, _END))
        return (self._follow(state, _END) if following is None else following) == _MATCHED

    def _forget(self) -> None:
        self._states.clear()
        self._numbers.clear()
        self._memory.clear()
        self._number((frozenset({self._program.start}), "start"))

    def _number(self, state: tuple[frozenset[int], str]) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
        return number

    def _follow(self, number: int, character: str) -> int:
        state = self._states[number]
        if len(self._memory) >= _MOST_MEMORIES:
            self._forget()
            number = self._number(state)
        reached = self._program.reach(*state, character)
        # a match may begin at every character
        next_ = None if reached is None else (reached | {self._program.start}, _kind(character))
        following = _MATCHED if next_ is None else self._number(next_)
        self._memory[number, character] = following
        return following


class _Program:
    """Places in an expression: `steps` lead on by a character, `jumps` without one, `checks` at certain positions."""

    def __init__(self, pattern: str) -> None:
        self._pattern: Final = pattern
        self._steps: list[tuple[Characters, int] | None] = []
        self._jumps: list[tuple[int, ...]] = []
        self._checks: list[str] = []
        self._final: Final = self._place()
        self.start: Final = self._build(expressions.parse(pattern), self._final)

    def reach(self, places: frozenset[int], before: str, character: str) -> frozenset[int] | None:
        """Where a character leads; None if a match is complete before it."""
        seen: set[int] = set()
        waiting = list(places)
        found: set[int] = set()
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            if place == self._final:
                return None
            step = self._steps[place]
            if step is not None:
                if character and character in step[0]:
                    found.add(step[1])
            elif not self._checks[place] or _holds(self._checks[place], before, character):
                waiting.extend(self._jumps[place])
        return frozenset(found)

    def _place(
        self, *, step: tuple[Characters, int] | None = None, jumps: tuple[int, ...] = (), check: str = ""
    ) -> int:
        if len(self._steps) >= _MOST_STATES:
            raise PatternError("expression too large", self._pattern)
        self._steps.append(step)
        self._jumps.append(jumps)
        self._checks.append(check)
        return len(self._steps) - 1

    def _build(self, node: Node, then: int) -> int:
        """The place from which a node leads to another place."""
        match node:
            case Single(characters):
                return self._place(step=(characters, then))
            case Position(kind):
                return self._place(jumps=(then,), check=kind)
            case Sequence(parts):
                for part in reversed(parts):
                    then = self._build(part, then)
                return then
            case Choice(options):
                return self._place(jumps=tuple(self._build(option, then) for option in options))
            case Repeat(part, least, most):
                return self._repeat(part, least, most, then)

    def _repeat(self, part: Node, least: int, most: int | None, then: int) -> int:
        if most is None:
            loop = self._place()
            self._jumps[loop] = (self._build(part, loop), then)
            then = loop
        else:
            leave = then
            for _ in range(most - least):
                then = self._place(jumps=(self._build(part, then), leave))
        for _ in range(least):
            then = self._build(part, then)
        return then


def _kind(character: str) -> str:
    if character == "\n":
        return "newline"
    return "word" if character in WORDS else "other"


def _holds(check: str, before: str, character: str) -> bool:
    match check:
        case "start":
            return before == "start"
        case "end":
            return not character
        case "line start":
            return before in {"start", "newline"}
        case "line end":
            return not character or character == "\n"
    at_boundary = (before == "word") != bool(character and character in WORDS)
    return at_boundary if check == "word boundary" else not at_boundary
