"""`rota exec`: connects the streams of this process with those of a command in a container."""

from typing import Any

from rota.cli import endpoints
from rota.cli.commands import session, stream_bridge
from rota.client import exec_stream
from rota.client.endpoints import Endpoint
from rota.kit import logs


def execute(
    *,
    name: str,
    command_line: tuple[str, ...],
    namespace: str,
    container: str,
    stdin: bool,
    tty: bool,
    **server: Any,
) -> int:
    """Run a command in a container; returns its exit code."""
    logs.configure(level="error")
    endpoint = endpoints.own_cluster(**server)
    stdin, tty = stdin or tty, stream_bridge.terminal(tty=tty)
    pod = name.removeprefix("pod/").removeprefix("pods/")
    about = {"namespace": namespace or endpoint.namespace, "container": container}
    with session.telling(endpoint):
        return session.run(_converse(endpoint, pod, command_line, stdin=stdin, tty=tty, **about))


async def _converse(
    endpoint: Endpoint, pod: str, command_line: tuple[str, ...], *, stdin: bool, tty: bool, **about: str
) -> int:
    async with exec_stream.execute(endpoint, pod, command_line, stdin=stdin, tty=tty, **about) as conversation:
        return await stream_bridge.converse(conversation, stdin=stdin, tty=tty)
