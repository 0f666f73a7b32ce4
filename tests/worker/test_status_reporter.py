"""Which statuses are written, and which say nothing that the next one does not say."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import errors
from rota.client.transports.transport import Interrupted
from rota.testing.clocks import FakeClock
from rota.worker import status_reporter
from rota.worker.status_reporter import StatusReporter

UID = "u"


def status(phase: str, **state: Any) -> dict[str, Any]:
    return {"phase": phase, "containerStatuses": [{"name": "c", "state": state}]}


CREATING = status("Pending", waiting={"reason": "ContainerCreating"})
FAILING = status("Pending", waiting={"reason": "CreateContainerConfigError"})
RUNNING = status("Running", running={})
DONE = status("Succeeded", terminated={"exitCode": 0})


class Api:
    """Takes statuses and deletions down; one that knows no batches is a stock server."""

    def __init__(self, *, batches: bool) -> None:
        self.told: list[tuple[str, str]] = []
        self.sizes: list[int] = []
        self.fails = 0
        self.lost = 0
        self.slow: asyncio.Event | None = None
        self._batches = batches

    def with_settings(self, **_: Any) -> "Api":
        return self

    async def create(self, target: object, batch: dict[str, Any]) -> dict[str, Any]:
        if not self._batches:
            raise errors.NotFound("the server could not find the requested resource")
        if self.slow is not None:
            await self.slow.wait()
        if self.lost:
            self.lost -= 1
            raise Interrupted("the connection broke")
        statuses = batch["statuses"]
        self.sizes.append(len(statuses))
        return {"verdicts": [{"status": self._verdict(one)} for one in statuses]}

    def _verdict(self, one: dict[str, Any]) -> dict[str, Any]:
        try:
            self._take(one["metadata"]["name"], one["status"])
        except errors.InternalError as refusal:
            return refusal.to_wire()
        return {"status": "Success"}

    async def patch(self, target: object, name: str, patch: dict[str, Any], **_: Any) -> None:
        self._take(name, patch["status"])

    def _take(self, name: str, status: dict[str, Any]) -> None:
        if self.fails:
            self.fails -= 1
            raise errors.InternalError("not now")
        self.told.append((name, status["phase"]))

    async def delete(self, target: object, name: str, **_: Any) -> None:
        self.told.append((name, "deleted"))


@pytest.fixture(params=[True, False], ids=["ours", "stock"])
def api(request: pytest.FixtureRequest) -> Api:
    return Api(batches=request.param)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def reporter(api: Api, clock: FakeClock) -> AsyncIterator[StatusReporter]:
    def find(uid: str) -> dict[str, Any]:
        return {"metadata": {"name": uid, "namespace": "default", "uid": uid}}

    made = StatusReporter(api, find, clock=clock, rng=random.Random(0))  # type: ignore[arg-type] # as much of it as is used
    working = asyncio.ensure_future(made.run())
    yield made
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


async def test_a_pod_that_starts_soon_is_not_reported_as_starting(
    reporter: StatusReporter, api: Api, clock: FakeClock
) -> None:
    reporter.tell(UID, CREATING)
    await clock.advance(0.1)
    reporter.tell(UID, RUNNING)
    await clock.advance(1.0)
    assert api.told == [(UID, "Running")]


async def test_one_that_takes_its_time_is(reporter: StatusReporter, api: Api, clock: FakeClock) -> None:
    reporter.tell(UID, CREATING)
    await clock.advance(1.0)
    assert api.told == [(UID, "Pending")]


async def test_a_failed_start_is_reported_at_once(reporter: StatusReporter, api: Api, clock: FakeClock) -> None:
    reporter.tell(UID, FAILING)
    await clock.advance(0.0)
    assert api.told == [(UID, "Pending")]


async def test_under_load_only_the_ends_of_short_tasks_are_reported(
    reporter: StatusReporter, api: Api, clock: FakeClock
) -> None:
    many = [f"u{number}" for number in range(100)]
    for uid in many:
        reporter.tell(uid, RUNNING)
    await clock.advance(0.0)
    assert len(api.told) == status_reporter._PROMPT_BURST, "the first are told at once"
    for uid in many:
        reporter.tell(uid, DONE)
    await clock.advance(1.0)
    assert len(api.told) == status_reporter._PROMPT_BURST + len(many)
    assert {uid for uid, phase in api.told if phase == "Succeeded"} == set(many)


async def test_under_load_all_long_tasks_are_reported_running(
    reporter: StatusReporter, api: Api, clock: FakeClock
) -> None:
    many = [f"u{number}" for number in range(100)]
    for uid in many:
        reporter.tell(uid, RUNNING)
    await clock.advance(0.2)
    assert sorted(api.told) == sorted((uid, "Running") for uid in many)


async def test_a_deletion_is_confirmed_after_the_last_status(
    reporter: StatusReporter, api: Api, clock: FakeClock
) -> None:
    api.fails = 2
    reporter.tell(UID, DONE)
    reporter.confirm(UID)
    await clock.advance(60.0)
    assert api.told == [(UID, "Succeeded"), (UID, "deleted")]


@pytest.mark.parametrize("api", [True], indirect=True, ids=["ours"])
async def test_what_gathers_while_others_are_on_their_way_goes_together(
    reporter: StatusReporter, api: Api, clock: FakeClock
) -> None:
    api.slow = asyncio.Event()
    reporter.tell("first", DONE)
    await clock.advance(0.0)
    for number in range(100):
        reporter.tell(f"u{number}", DONE)
    await clock.advance(0.0)
    api.slow.set()
    await clock.advance(1.0)
    assert len(api.told) == 101
    assert api.sizes[0] == 1
    assert max(api.sizes) > 30


@pytest.mark.parametrize("api", [True], indirect=True, ids=["ours"])
async def test_a_refused_status_is_sent_again_and_the_others_are_not(
    reporter: StatusReporter, api: Api, clock: FakeClock
) -> None:
    api.fails = 1
    for number in range(5):
        reporter.tell(f"u{number}", DONE)
    await clock.advance(60.0)
    assert sorted(api.told) == [(f"u{number}", "Succeeded") for number in range(5)]


@pytest.mark.parametrize("api", [True], indirect=True, ids=["ours"])
async def test_a_request_that_broke_is_made_again(reporter: StatusReporter, api: Api, clock: FakeClock) -> None:
    api.lost = 1
    for number in range(5):
        reporter.tell(f"u{number}", DONE)
    await clock.advance(60.0)
    assert sorted(api.told) == [(f"u{number}", "Succeeded") for number in range(5)]
