"""Connects the streams of this process with a stream to a container: input, output and terminal."""

import asyncio
import contextlib
import sys

from rota.cli import output
from rota.cli.commands import terminals
from rota.client.exec_stream import Conversation, Stream


def terminal(*, tty: bool) -> bool:
    """Whether to use this terminal, if one is requested: there may be none."""
    if tty and not sys.stdin.isatty():
        output.note("standard input is no terminal: going on without one")
        return False
    return tty


async def converse(conversation: Conversation, *, stdin: bool, tty: bool) -> int:
    """Copy streams until the remote side ends; returns its exit code."""
    with contextlib.ExitStack() as exits:
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
