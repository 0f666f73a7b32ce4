"""A keyed heap against a sorted list."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rota.kit.heaps import KeyedHeap

KEYS = st.integers(0, 200)
PRIORITIES = st.integers(0, 5)


class HeapAgainstSortedList(RuleBasedStateMachine):
    """The model keeps (priority, sequence number, key) in a plain list and sorts it for every read."""

    def __init__(self) -> None:
        super().__init__()
        self.heap: KeyedHeap[int, int] = KeyedHeap()
        self.model: dict[int, tuple[int, int]] = {}
        self.turn = 0

    def ordered(self) -> list[tuple[int, int]]:
        return [(key, priority) for priority, _, key in sorted((p, turn, k) for k, (p, turn) in self.model.items())]

    @rule(key=KEYS, priority=PRIORITIES)
    def push(self, key: int, priority: int) -> None:
        self.heap.push(key, priority)
        if key not in self.model or self.model[key][0] != priority:
            self.turn += 1
            self.model[key] = (priority, self.turn)

    @rule(first=KEYS, count=st.integers(50, 150), priority=PRIORITIES)
    def push_many(self, first: int, count: int, priority: int) -> None:
        for key in range(first, first + count):
            self.push(key, priority)

    @rule(key=KEYS)
    def remove(self, key: int) -> None:
        if key in self.model:
            assert self.heap.remove(key) == self.model.pop(key)[0]
        else:
            with pytest.raises(KeyError):
                self.heap.remove(key)

    @rule(first=KEYS, count=st.integers(50, 150))
    def discard_many(self, first: int, count: int) -> None:
        for key in range(first, first + count):
            self.heap.discard(key)
            self.model.pop(key, None)

    @precondition(lambda self: self.model)
    @rule()
    def pop(self) -> None:
        expected = self.ordered()[0]
        assert self.heap.peek() == expected
        assert self.heap.pop() == expected
        del self.model[expected[0]]

    @rule(bound=PRIORITIES)
    def pop_through(self, bound: int) -> None:
        expected = [(key, priority) for key, priority in self.ordered() if priority <= bound]
        assert list(self.heap.pop_through(bound)) == expected
        for key, _ in expected:
            del self.model[key]

    @rule()
    def clear(self) -> None:
        self.heap.clear()
        self.model.clear()

    @invariant()
    def holds_the_same(self) -> None:
        assert len(self.heap) == len(self.model)
        assert set(self.heap) == set(self.model)
        assert all(key in self.heap and self.heap.priority(key) == p for key, (p, _) in self.model.items())

    def teardown(self) -> None:
        assert [self.heap.pop() for _ in range(len(self.heap))] == self.ordered()


TestHeap = HeapAgainstSortedList.TestCase
TestHeap.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)


def test_an_empty_heap_has_no_first() -> None:
    heap: KeyedHeap[str, int] = KeyedHeap()
    with pytest.raises(IndexError):
        heap.peek()
    heap.push("a", 1)
    heap.remove("a")
    with pytest.raises(IndexError):
        heap.pop()


def test_keys_are_never_compared_with_each_other() -> None:
    heap: KeyedHeap[object, int] = KeyedHeap()
    first, second = object(), object()
    heap.push(first, 1)
    heap.push(second, 1)
    assert [heap.pop()[0], heap.pop()[0]] == [first, second]


def test_removing_and_moving_for_ever_does_not_grow_the_heap() -> None:
    heap: KeyedHeap[int, int] = KeyedHeap()
    for round_ in range(10_000):
        heap.push(round_ % 10, round_)
        heap.discard((round_ + 5) % 10)
    assert len(heap._heap) < 200
