"""Which statuses are written, and which say nothing that the next one does not say."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import errors
from rota.testing.clocks import FakeClock
from rota.worker import reporting
from rota.worker.reporting import Reporter

UID = "u"


def status(phase: str, **state: Any) -> dict[str, Any]:
    return {"phase": phase, "containerStatuses": [{"name": "c", "state": state}]}


CREATING = status("Pending", waiting={"reason": "ContainerCreating"})
FAILING = status("Pending", waiting={"reason": "CreateContainerConfigError"})
RUNNING = status("Running", running={})
DONE = status("Succeeded", terminated={"exitCode": 0})


class Api:
    """Takes statuses and deletions down."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.fails = 0

    def with_settings(self, **_: Any) -> "Api":
        return self

    async def patch(self, target: object, name: str, patch: dict[str, Any], **_: Any) -> None:
        if self.fails:
            self.fails -= 1
            raise errors.InternalError("not now")
        self.told.append((name, patch["status"]["phase"]))

    async def delete(self, target: object, name: str, **_: Any) -> None:
        self.told.append((name, "deleted"))


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def reporter(api: Api, clock: FakeClock) -> AsyncIterator[Reporter]:
    def find(uid: str) -> dict[str, Any]:
        return {"metadata": {"name": uid, "namespace": "default", "uid": uid}}

    made = Reporter(api, find, clock=clock, chance=random.Random(0))  # type: ignore[arg-type] # as much of it as is used
    working = asyncio.ensure_future(made.run())
    yield made
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


async def test_a_pod_that_starts_soon_is_not_told_to_be_starting(
    reporter: Reporter, api: Api, clock: FakeClock
) -> None:
    reporter.tell(UID, CREATING)
    await clock.advance(0.1)
    reporter.tell(UID, RUNNING)
    await clock.advance(1.0)
    assert api.told == [(UID, "Running")]


async def test_one_that_takes_its_time_is(reporter: Reporter, api: Api, clock: FakeClock) -> None:
    reporter.tell(UID, CREATING)
    await clock.advance(1.0)
    assert api.told == [(UID, "Pending")]


async def test_what_keeps_a_pod_from_starting_is_told_at_once(reporter: Reporter, api: Api, clock: FakeClock) -> None:
    reporter.tell(UID, FAILING)
    await clock.advance(0.0)
    assert api.told == [(UID, "Pending")]


async def test_of_very_many_short_tasks_only_the_ends_are_told(reporter: Reporter, api: Api, clock: FakeClock) -> None:
    many = [f"u{number}" for number in range(100)]
    for uid in many:
        reporter.tell(uid, RUNNING)
    await clock.advance(0.0)
    assert len(api.told) == reporting._PROMPT_BURST, "the first are told at once"
    for uid in many:
        reporter.tell(uid, DONE)
    await clock.advance(1.0)
    assert len(api.told) == reporting._PROMPT_BURST + len(many)
    assert {uid for uid, phase in api.told if phase == "Succeeded"} == set(many)


async def test_of_very_many_long_ones_all_are_told_to_run(reporter: Reporter, api: Api, clock: FakeClock) -> None:
    many = [f"u{number}" for number in range(100)]
    for uid in many:
        reporter.tell(uid, RUNNING)
    await clock.advance(0.1)
    assert sorted(api.told) == sorted((uid, "Running") for uid in many)


async def test_a_deletion_is_confirmed_after_the_last_status(reporter: Reporter, api: Api, clock: FakeClock) -> None:
    api.fails = 2
    reporter.tell(UID, DONE)
    reporter.confirm(UID)
    await clock.advance(60.0)
    assert api.told == [(UID, "Succeeded"), (UID, "deleted")]
