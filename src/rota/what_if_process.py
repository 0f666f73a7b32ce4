"""Answers WhatIf objects in a process of their own, which a master starts for each question.

The master lists the cluster and passes the objects on as bytes. The process decodes them, decides, and writes one line.
So a large question costs the master little more than the lists, its memory is given back, and a question that takes too
long is ended. One question is answered at a time; a few may wait.
"""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.api import errors
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.scheduler.config import encoder, resolution
from rota.scheduler.plugin_registry import third_party
from rota.scheduler.plugin_registry.configuration_source import ConfigurationSource, LiveConfiguration, frameworks
from rota.scheduler.snapshot import cluster_dump
from rota.scheduler.snapshot.cluster_dump import Lists
from rota.simulator import traces, what_if, what_if_spec

log = logs.get(__name__)

#: Questions that wait for the one that is being answered.
_MOST_WAITING: Final = 4
#: How long an answer may take; a request may take 60 seconds.
_LIMIT_S: Final = 50.0
_RETRY_S: Final = 5
#: Answers give way to everything else on the machine.
_NICE: Final = 10


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question with everything that its answer depends on."""

    spec: dict[str, Any]
    #: The configuration in force, the files with its plugins, and the folder in which its modules are.
    configuration: dict[str, Any]
    plugins: list[str]
    folder: str
    objects: list[tuple[str, list[bytes]]]
    left_out: list[str]


class _Answered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The status, or why there is none."""

    status: dict[str, Any] | None = None
    refusal: str = ""


class WhatIfProcess:
    """The master's side (`apiserver.subresources.what_if.WhatIfSource`)."""

    def __init__(
        self, client: Client, configuration: LiveConfiguration, source: ConfigurationSource, *, clock: Clock
    ) -> None:
        self._client: Final = client
        self._configuration: Final = configuration
        self._source: Final = source
        self._clock: Final = clock
        self._turn: Final = asyncio.Lock()
        self._asked = 0

    async def answer(self, spec: Mapping[str, Any], /) -> dict[str, Any]:
        """The status for a spec; ApiError if there is none."""
        if self._asked > _MOST_WAITING:
            raise errors.too_many_requests("other questions are being answered", retry_after_seconds=_RETRY_S)
        self._asked += 1
        try:
            async with self._turn:
                asked = await self._with_cluster(spec)
                return await self._clock.wait_for(_answered(asked), _LIMIT_S)
        except TimeoutError as error:
            why = f"the answer takes longer than {_LIMIT_S:.0f} s; ask rota what-if, which has no limit"
            raise errors.service_unavailable(why) from error
        finally:
            self._asked -= 1

    async def _with_cluster(self, spec: Mapping[str, Any]) -> bytes:
        loaded, file = self._configuration.loaded, self._source.file
        found = await cluster_dump.lists(self._client, frameworks(loaded).values())
        return msgspec.msgpack.encode(
            _Asked(
                spec=dict(spec),
                configuration=encoder.to_document(loaded.configuration.settings),
                plugins=[str(each.absolute()) for each in self._source.plugins],
                folder=str(file.absolute().parent) if file is not None else "",
                objects=found.objects,
                left_out=found.left_out,
            )
        )


async def _answered(asked: bytes) -> dict[str, Any]:
    # A separate session, so that the terminal's signals go to the master only.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "rota.what_if_process", stdin=PIPE, stdout=PIPE, start_new_session=True
    )
    try:
        told, _ = await process.communicate(asked)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        log.error("the process of a question failed", code=process.returncode)
        raise errors.internal_error("the question could not be answered; see the server's log")
    answered = msgspec.json.decode(told, type=_Answered)
    if answered.status is None:
        raise errors.bad_request(answered.refusal)
    return answered.status


# --- in the process -------------------------------------------------------------------------------------------------


def _answer(asked: _Asked) -> _Answered:
    try:
        if asked.folder:
            # `module:Class` in a profile also finds modules beside the file.
            sys.path.insert(0, asked.folder)
        registry = ConfigurationSource(None, tuple(map(Path, asked.plugins))).registry()
        present = third_party.load_settings(resolution.read(asked.configuration), registry)
        dump = cluster_dump.of_lists(Lists(asked.objects, asked.left_out))
        objects = cluster_dump.objects_of(enumerate(dump.lines), name="the cluster")
        cluster = traces.from_objects(objects, "the cluster")
        status = what_if_spec.status(what_if.answer(what_if_spec.question(asked.spec, cluster, present)))
    except UserError as error:
        return _Answered(refusal=str(error))
    if dump.left_out:
        status.setdefault("notes", []).append(f"left out, since they could not be read: {', '.join(dump.left_out)}")
    return _Answered(status=status)


def _main() -> None:
    # It does not outlive its limit if the master is killed.
    signal.alarm(int(2 * _LIMIT_S))
    os.nice(_NICE)
    asked = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Asked)
    sys.stdout.buffer.write(msgspec.json.encode(_answer(asked)))


if __name__ == "__main__":
    _main()
