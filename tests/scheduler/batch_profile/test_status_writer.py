"""Statuses are written with or without a status subresource, as the definition of their kind has it."""

import asyncio
from typing import Any

import pytest

from rota.api import errors
from rota.api.errors import Details
from rota.scheduler.batch_profile.kinds import POD_GROUPS
from rota.scheduler.batch_profile.status_writer import Refusal, StatusWrite, StatusWriter
from rota.testing.clocks import FakeClock


class Server:
    """Objects by name, of a kind that has a status subresource or not."""

    def __init__(self, *, separate: bool, names_it: bool) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.separate = separate
        #: Whether the answer about a missing subresource names the object, as a stock API server's does.
        self.names_it = names_it
        self.asked: list[str] = []

    async def patch(
        self, target: Any, name: str, patch: dict[str, Any], *, subresource: str = "", **_: Any
    ) -> dict[str, Any]:
        self.asked.append(subresource)
        if name not in self.objects:
            raise errors.NotFound(details=Details(name=name))
        if subresource and not self.separate:
            raise errors.NotFound(details=Details(name=name) if self.names_it else None)
        if bool(subresource) is self.separate:
            self.objects[name] = {**self.objects[name], "status": dict(patch["status"])}
        return self.objects[name]


async def written(server: Server, *names: str) -> list[Refusal]:
    """Write the same status to some objects, one after the other; the refusals."""
    refused: list[Refusal] = []
    clock = FakeClock()
    writer = StatusWriter(server, clock=clock, failed=refused.append)  # type: ignore[arg-type] # as far as it is used
    for name in names:
        writer.write(StatusWrite(POD_GROUPS, name, {"phase": "Inqueue"}, "default", "u"))
        for _ in range(10):
            await asyncio.sleep(0)
    await writer.close()
    return refused


@pytest.mark.parametrize("names_it", [True, False])
async def test_without_a_status_subresource_the_status_is_a_field(names_it: bool) -> None:
    server = Server(separate=False, names_it=names_it)
    server.objects = {"a": {}, "b": {}}
    assert await written(server, "a", "b") == []
    assert server.objects == {name: {"status": {"phase": "Inqueue"}} for name in "ab"}
    assert server.asked == ["status", "", ""]


async def test_an_object_that_is_gone_is_forgotten_and_says_nothing_about_its_kind() -> None:
    server = Server(separate=True, names_it=True)
    server.objects = {"a": {}}
    assert await written(server, "gone", "a", "gone") == []
    assert server.objects == {"a": {"status": {"phase": "Inqueue"}}}
    assert server.asked == ["status", "", "status", "status"]
