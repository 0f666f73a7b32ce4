"""Random histories against a small model: both agree for any sequence of operations."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from rota.store import errors
from rota.store.store_interface import (
    Committed,
    Delete,
    Outcome,
    Precondition,
    Put,
    Refused,
    RevisionRange,
    Store,
    Transaction,
)
from rota.testing.databases import FreshDatabase
from rota.testing.store_contract import gather_to, opened, replay

T = TypeVar("T")

KEYS = st.sampled_from([f"/{group}/{name}" for group in "ab" for name in "xyz"])
VALUES = st.binary(max_size=3)


class Model:
    """Every state, by revision."""

    def __init__(self, revision: int) -> None:
        self.states: dict[int, dict[str, tuple[bytes, int, int]]] = {revision: {}}
        self.revision = revision

    def commit(self, transaction: Transaction, revision: int) -> None:
        state = dict(self.states[self.revision])
        for write in transaction.writes:
            if isinstance(write, Put):
                created = state[write.key][2] if write.key in state else revision
                state[write.key] = (write.value, revision, created)
            else:
                state.pop(write.key, None)
        self.states[revision] = state
        self.revision = revision

    def allows(self, transaction: Transaction) -> bool:
        state = self.states[self.revision]
        return all(
            guard.revision in (None, state.get(guard.key, (b"", 0, 0))[1])
            and guard.created in (None, state.get(guard.key, (b"", 0, 0))[2])
            for guard in transaction.guards
        )


class StoreMachine(RuleBasedStateMachine):
    """Drives one store through two openings, with a watch since the beginning."""

    #: Set by the test; called for every run of the machine.
    url_of_fresh_database: Callable[[], str]
    store: Store | None = None
    other: Store

    revisions: Bundle[int] = Bundle("revisions")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = contextlib.AsyncExitStack()
        self.start = self.floor = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    @initialize(target=revisions)
    def open(self) -> int:
        async def open_() -> tuple[Store, Store, RevisionRange]:
            url = type(self).url_of_fresh_database()
            store, other = [await self.stack.enter_async_context(opened(url)) for _ in range(2)]
            return store, other, await store.revision_range()

        self.store, self.other, revision_range = self.run(open_())
        self.model = Model(revision_range.revision)
        self.start, self.floor = revision_range.revision, revision_range.floor
        return self.start

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()

    def through(self, second: bool) -> Store:
        assert self.store is not None
        return self.other if second else self.store

    @rule(
        target=revisions,
        second=st.booleans(),
        writes=st.lists(st.tuples(KEYS, st.none() | VALUES), min_size=1, max_size=3, unique_by=lambda write: write[0]),
        guards=st.lists(st.tuples(KEYS, st.sampled_from(["absent", "current", "created", "stale"])), max_size=2),
    )
    def commit(
        self,
        second: bool,
        writes: list[tuple[str, bytes | None]],
        guards: list[tuple[str, str]],
    ) -> int:
        transaction = Transaction(
            tuple(Delete(key) if value is None else Put(key, value) for key, value in writes),
            tuple(self.guard(key, kind) for key, kind in guards),
        )
        outcome: Outcome = self.run(self.through(second).commit(transaction))
        assert isinstance(outcome, Committed) == self.model.allows(transaction)
        state = self.model.states[self.model.revision]
        if isinstance(outcome, Refused):
            for conflict in outcome.conflicts:
                actual = state.get(conflict.guard.key)
                assert (conflict.actual and (conflict.actual.value, conflict.actual.revision)) == (
                    actual and actual[:2]
                )
        elif any(isinstance(write, Put) or write.key in state for write in transaction.writes):
            assert outcome.revision > self.model.revision
            self.model.commit(transaction, outcome.revision)
        else:
            assert outcome.revision == self.model.revision
        return self.model.revision

    def guard(self, key: str, kind: str) -> Precondition:
        current = self.model.states[self.model.revision].get(key, (b"", 0, 0))
        match kind:
            case "absent":
                return Precondition(key, revision=0)
            case "current":
                return Precondition(key, revision=current[1])
            case "created":
                return Precondition(key, created=current[2])
            case _:
                return Precondition(key, revision=self.start)

    @rule(second=st.booleans(), key=KEYS)
    def get(self, second: bool, key: str) -> None:
        entry = self.run(self.through(second).get(key))
        expected = self.model.states[self.model.revision].get(key)
        assert (entry and (entry.value, entry.revision, entry.created)) == expected

    @rule(second=st.booleans(), revision=revisions, prefix=st.sampled_from(["", "/a/", "/b/"]), limit=st.integers(0, 4))
    def list_pages(self, second: bool, revision: int, prefix: str, limit: int) -> None:
        store = self.through(second)

        async def pages() -> dict[str, tuple[bytes, int, int]]:
            found: dict[str, tuple[bytes, int, int]] = {}
            after = ""
            while True:
                page = await store.list(prefix, limit=limit, after=after, revision=revision)
                found |= {entry.key: (entry.value, entry.revision, entry.created) for entry in page.entries}
                if not page.remaining:
                    return found
                after = page.entries[-1].key

        if revision < self.floor:
            with pytest.raises(errors.Expired):
                self.run(pages())
            return
        expected = {key: value for key, value in self.model.states[revision].items() if key.startswith(prefix)}
        found = self.run(pages())
        assert found == expected
        assert list(found) == sorted(found)

    @rule(second=st.booleans(), revision=revisions, prefix=st.sampled_from(["", "/a/", "/b/"]))
    def watch(self, second: bool, revision: int, prefix: str) -> None:
        """A list at any revision, plus the events after it, is what stands now."""
        store = self.through(second)
        states = self.model.states
        now = {key: value for key, value in states[self.model.revision].items() if key.startswith(prefix)}
        tainted_nodes = [at for at in sorted(states) if at > revision and _under(states, at, prefix)]

        async def follow() -> dict[str, bytes]:
            page = await store.list(prefix, revision=revision)
            async with store.watch(prefix, after=revision) as watch:
                events = await gather_to(watch, tainted_nodes[-1]) if tainted_nodes else []
            assert [event.revision for event in events] == sorted(event.revision for event in events)
            assert {event.revision for event in events} == set(tainted_nodes)
            return replay(page.entries, events)

        if revision < self.floor:
            with pytest.raises(errors.Expired):
                self.run(follow())
            return
        assert self.run(follow()) == {key: value for key, (value, _, _) in now.items()}

    @rule(second=st.booleans(), revision=revisions)
    def compact(self, second: bool, revision: int) -> None:
        self.run(self.through(second).compact(revision))
        self.floor = max(self.floor, revision)

    @invariant()
    def extent_agrees(self) -> None:
        if self.store:
            revision_range = self.run(self.other.revision_range())
            assert revision_range.revision == self.model.revision
            assert revision_range.floor == self.floor


def _under(states: dict[int, dict[str, tuple[bytes, int, int]]], at: int, prefix: str) -> bool:
    """Whether the revision `at` changed anything under `prefix`."""
    previous = states[max(revision for revision in states if revision < at)]
    changed = {key for key in states[at].keys() | previous.keys() if states[at].get(key) != previous.get(key)}
    return any(key.startswith(prefix) for key in changed)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_store_and_the_model_agree_whatever_is_done(database: FreshDatabase, request: pytest.FixtureRequest) -> None:
    count = iter(range(10_000))

    def fresh_url() -> str:
        number = next(count)
        if database.kind == "sqlite":
            return f"{database.url}.{number}"
        if database.kind == "postgres":
            url: str = request.getfixturevalue("postgres_server").create_database()
            return url
        return f"{database.url}-{number}"

    machine = type("Machine", (StoreMachine,), {"url_of_fresh_database": staticmethod(fresh_url)})
    slow = database.kind in ("postgres", "etcd")
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=10 if slow else 40,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
