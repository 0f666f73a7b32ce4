"""What `rota exec` does: connects this process's streams with those of a command in a container."""

import asyncio
import contextlib
import sys
from typing import Any

from rota.cli import endpoints, output
from rota.cli.acts import asking, terminals
from rota.client import conversations
from rota.client.conversations import Conversation, Stream
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
    """Run a command in a container; its exit code."""
    logs.configure(level="error")
    endpoint = endpoints.own_cluster(**server)
    if tty and not sys.stdin.isatty():
        output.note("standard input is no terminal: going on without one")
        stdin, tty = True, False
    pod = name.removeprefix("pod/").removeprefix("pods/")
    about = {"namespace": namespace or endpoint.namespace, "container": container}
    with asking.telling(endpoint):
        return asking.run(_converse(endpoint, pod, command_line, stdin=stdin or tty, tty=tty, **about))


async def _converse(
    endpoint: Endpoint, pod: str, command_line: tuple[str, ...], *, stdin: bool, tty: bool, **about: str
) -> int:
    async with contextlib.AsyncExitStack() as exits:
        conversation = await exits.enter_async_context(
            conversations.execute(endpoint, pod, command_line, stdin=stdin, tty=tty, **about)
        )
        sending: set[asyncio.Task[None]] = set()
        if tty:
            exits.enter_context(terminals.raw(sys.stdin.fileno()))
            exits.enter_context(
                terminals.sizes(
                    lambda columns, rows: sending.add(asyncio.create_task(conversation.resize(columns, rows)))
                )
            )
        if stdin:
            sending.add(asyncio.create_task(_hand_on(conversation)))
        try:
            async for stream, chunk in conversation.output():
                target = sys.stdout.buffer if stream is Stream.OUTPUT else sys.stderr.buffer
                target.write(chunk)
                target.flush()
        finally:
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
    assert conversation.exit_code is not None
    return conversation.exit_code


async def _hand_on(conversation: Conversation) -> None:
    async for chunk in terminals.chunks(sys.stdin.fileno()):
        await conversation.send(chunk)
    await conversation.end_input()
