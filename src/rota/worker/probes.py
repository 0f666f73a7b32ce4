"""Probes of containers: exec, HTTP, gRPC and TCP. One task for each probe of each run.

The pod machine interprets the results; this module only probes, at the period of the probe's spec.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import aiohttp

from rota.kit.clock import Clock
from rota.worker import health

_MOST_BYTES: Final = 10 * 1024


class Answer(NamedTuple):
    """The result of one probe."""

    success: bool
    message: str = ""


#: Runs a command in a container; returns its exit code and the beginning of its output.
Execute: TypeAlias = Callable[[list[str]], Awaitable[tuple[int, bytes]]]


async def run_probe(
    probe: Mapping[str, Any],
    tell: Callable[[Answer], None],
    *,
    execute: Execute,
    ports: Mapping[str, int],
    address: str,
    clock: Clock,
) -> None:
    """Probe until cancelled."""
    await clock.sleep(probe.get("initialDelaySeconds") or 0)
    period = probe.get("periodSeconds") or 10
    while True:
        tell(await ask(probe, execute=execute, ports=ports, address=address))
        await clock.sleep(period)


async def ask(probe: Mapping[str, Any], *, execute: Execute, ports: Mapping[str, int], address: str) -> Answer:
    """Probe once; a timeout is a failure."""
    timeout = probe.get("timeoutSeconds") or 1
    try:
        async with asyncio.timeout(timeout):
            return await handle(probe, execute=execute, ports=ports, address=address)
    except TimeoutError:
        return Answer(False, f"no answer within {timeout}s")
    except (OSError, aiohttp.ClientError, ValueError) as problem:
        return Answer(False, str(problem) or type(problem).__name__)


async def handle(handler: Mapping[str, Any], *, execute: Execute, ports: Mapping[str, int], address: str) -> Answer:
    """Carry out the handler of a probe or a lifecycle hook."""
    if wanted := handler.get("exec"):
        code, output = await execute(list(wanted.get("command") or ()))
        return Answer(code == 0, output.decode("utf-8", "replace"))
    if wanted := handler.get("httpGet"):
        return await _http(wanted, ports, address)
    if wanted := handler.get("tcpSocket"):
        return await _tcp(wanted.get("host") or address, _port(wanted.get("port"), ports))
    if wanted := handler.get("grpc"):
        found = await health.ask(_at(address, _port(wanted.get("port"), ports)), wanted.get("service") or "")
        return Answer(found.serves, found.message)
    if wanted := handler.get("sleep"):
        await asyncio.sleep(wanted.get("seconds") or 0)
        return Answer(True)
    return Answer(False, "nothing to ask")


async def _http(wanted: Mapping[str, Any], ports: Mapping[str, int], address: str) -> Answer:
    scheme = (wanted.get("scheme") or "HTTP").lower()
    host = wanted.get("host") or address
    path = wanted.get("path") or "/"
    url = f"{scheme}://{_at(host, _port(wanted.get('port'), ports))}{path if path.startswith('/') else '/' + path}"
    headers = {one["name"]: one.get("value", "") for one in wanted.get("httpHeaders") or ()}
    headers.setdefault("User-Agent", "kube-probe/rota")
    async with (
        aiohttp.ClientSession() as session,
        # As upstream: the probe checks whether the container answers, not its certificate.
        session.get(url, headers=headers, ssl=False, allow_redirects=False) as answer,
    ):
        await answer.content.read(_MOST_BYTES)
        good = 200 <= answer.status < 400
        return Answer(good, "" if good else f"HTTP probe failed with statuscode: {answer.status}")


def _at(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _tcp(host: str, port: int) -> Answer:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    return Answer(True)


def _port(wanted: Any, ports: Mapping[str, int]) -> int:
    """A port number, or the port of the container with this name."""
    if isinstance(wanted, int):
        return wanted
    if isinstance(wanted, str) and wanted in ports:
        return ports[wanted]
    if isinstance(wanted, str) and wanted.isdecimal():
        return int(wanted)
    raise ValueError(f"there is no port {wanted}")
