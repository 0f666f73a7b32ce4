"""`rota dump`: reads a cluster once and writes it as a trace."""

from pathlib import Path
from typing import Any

import click

from rota.cli import endpoints, output
from rota.cli.commands import session
from rota.cli.scheduler_options import SchedulerFiles
from rota.client.verbs import Client
from rota.kit.errors import UserError
from rota.kit.system import SystemClock
from rota.scheduler.config import encoder
from rota.scheduler.plugin_registry.configuration_source import frameworks
from rota.scheduler.recording import trace_files, trace_lines
from rota.scheduler.snapshot import cluster_dump
from rota.scheduler.snapshot.cluster_dump import Dump


def dump(*, file: Path, scheduler_files: SchedulerFiles, **server: Any) -> None:
    """Write a dump; the file appears only when it is complete."""
    loaded = scheduler_files.source().load() if scheduler_files else None
    endpoint = endpoints.nearest(**server)

    async def read(client: Client) -> Dump:
        return await cluster_dump.take(client, frameworks(loaded).values() if loaded is not None else ())

    found = session.at(endpoint, read)
    settings = encoder.to_document(loaded.configuration.settings) if loaded is not None else None
    head = trace_files.header(about="a cluster", began=SystemClock().now(), configuration=settings)
    lines = [head, *found.lines]
    content = trace_files.packed(lines) if file.name.endswith(".gz") else b"".join(map(trace_lines.encoded, lines))
    part = file.with_name(f".{file.name}.part")
    try:
        part.write_bytes(content)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UserError(f"cannot write {file}: {error.strerror}") from error
    if found.left_out:
        output.note(f"left out, since this server does not let them be read: {', '.join(found.left_out)}")
    click.echo(f"{found.nodes} nodes and {found.pods} pods in {file}")
