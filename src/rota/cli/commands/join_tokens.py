"""`rota token`: creates, lists and deletes join tokens of workers."""

import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import click

from rota.api import times
from rota.cli import endpoints, output
from rota.cli.commands import session
from rota.client import join_tokens, masters
from rota.client.endpoints import Endpoint
from rota.client.join_tokens import JoinToken
from rota.client.masters import Master
from rota.client.verbs import Client
from rota.kit import errors, system
from rota.pki import pinning

_T = TypeVar("_T")


def create(*, ttl: float, description: str, join_command: bool, as_json: bool, **server: Any) -> None:
    """Create a token and print it, or the command by which a worker joins."""
    token = join_tokens.make(now=system.SystemClock().now(), ttl_s=ttl or None, description=description)

    async def work(client: Client) -> list[Master]:
        await join_tokens.create(client, token)
        return await masters.listed(client)

    endpoint, listed = _at_server(server, work)
    known = (endpoint.server, *endpoint.fallbacks)
    servers = masters.addresses(known, listed, now=system.SystemClock().now())
    if as_json:
        authority = endpoint.certificate_authority
        where = {
            "server": servers[0],
            "servers": list(servers),
            "ca_hash": None if authority is None else pinning.pin(authority),
        }
        output.document({"token": token.text, **_told(token), **where})
    elif join_command:
        click.echo(_join_command(servers, endpoint, token))
    else:
        click.echo(token.text)
        if sys.stdout.isatty():
            click.echo(f"Join a worker with: {_join_command(servers, endpoint, token)}")


def list_(*, as_json: bool, **server: Any) -> None:
    """List tokens, without their secrets."""
    _, tokens = _at_server(server, join_tokens.list_tokens)
    if as_json:
        output.document([_told(one) for one in tokens])
        return
    now = system.SystemClock().now()
    rows = [[one.identifier, _until(one, now), ",".join(one.groups), one.description] for one in tokens]
    output.table(["ID", "GOOD UNTIL", "GROUPS", "DESCRIPTION"], rows)


def delete(*, tokens: tuple[str, ...], as_json: bool, **server: Any) -> None:
    """Delete tokens, by id or by the whole token."""
    identifiers = [_identifier(one) for one in tokens]

    async def work(client: Client) -> list[str]:
        return [one for one in identifiers if not await join_tokens.delete(client, one)]

    _, missing = _at_server(server, work)
    gone = [one for one in identifiers if one not in missing]
    if as_json:
        output.document({"deleted": gone, "missing": missing})
    else:
        for one in gone:
            click.echo(f"token {one} deleted")
    if missing:
        raise errors.UserError(f"there is no token {', '.join(missing)}", "see 'rota token list'")


def _join_command(servers: Sequence[str], endpoint: Endpoint, token: JoinToken) -> str:
    command = f"rota worker --join {shlex.quote(','.join(servers))} --token {token.text}"
    authority = endpoint.certificate_authority
    return command if authority is None else f"{command} --ca-hash {pinning.pin(authority)}"


def _identifier(text: str) -> str:
    whole = join_tokens.FORM.fullmatch(text)
    if whole is not None:
        return whole[1]
    if join_tokens.IDENTIFIER.fullmatch(text):
        return text
    raise click.UsageError(f"{text!r} is no token; its id has six letters and digits")


def _until(token: JoinToken, now: float) -> str:
    if token.expires is None:
        return "for ever"
    return "expired" if token.expires <= now else times.format_time(token.expires)


def _told(token: JoinToken) -> dict[str, Any]:
    expires = None if token.expires is None else times.format_time(token.expires)
    return {
        "id": token.identifier,
        "expires": expires,
        "groups": list(token.groups),
        "description": token.description,
    }


def _at_server(server: dict[str, Any], work: Callable[[Client], Awaitable[_T]]) -> tuple[Endpoint, _T]:
    """Run an operation in the selected cluster; returns its endpoint and the result."""
    endpoint = endpoints.own_cluster(**server)
    return endpoint, session.at(endpoint, work)
