"""`rota token`: tokens that new workers join a cluster with."""

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import click

from rota.api import errors as api_errors
from rota.api import times
from rota.cli import endpoints, output
from rota.cli.commands import Command, Family
from rota.client import connecting, join_tokens
from rota.client.endpoints import Endpoint
from rota.client.join_tokens import JoinToken
from rota.client.transports.contract import TransportError
from rota.client.verbs import Client
from rota.kit import errors, logs, system
from rota.pki import pinning

_T = TypeVar("_T")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(\d+)([smhd])")
_server_options: Final = functools.partial(
    endpoints.server_options, default="$KUBECONFIG, or that of `rota up` on this machine"
)


class _Duration(click.ParamType[float]):
    """`30m`, `24h`, `7d`; 0 for no end."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; 0 for no end."""
        if value == "0":
            return 0.0
        match = _DURATION.fullmatch(str(value))
        if match is None or not int(match[1]):
            self.fail(f"{value!r} is no duration; write 30m, 24h or 7d, or 0 for no end", param, ctx)
        return float(int(match[1]) * _UNITS[match[2]])


@click.group(
    "token",
    cls=Family,
    examples=[
        ("rota token create", "a token for the next 24 hours"),
        ("rota token list", "which ones there are, and until when"),
        ("rota token delete abcdef", "no more workers join with this one"),
    ],
)
def command() -> None:
    """Make, list and take back the tokens that new workers join a cluster with.

    The cluster is the one that `rota up` runs on this machine, or that of $KUBECONFIG, or of the options.
    """


@command.command(
    "create",
    cls=Command,
    examples=[
        ("rota token create", "a token for the next 24 hours"),
        ("rota token create --ttl 30m --description 'rack 7'", "a short one, with a word about what it is for"),
        ("TOKEN=$(rota token create)", "in a script: the token is all that is printed"),
    ],
)
@click.option("--ttl", type=_Duration(), default="24h", show_default=True, help="How long it is good for; 0: no end.")
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@output.json_option
@_server_options
def create(*, ttl: float, description: str, as_json: bool, **server: Any) -> None:
    """Make a token and print it; it is not shown again."""
    logs.configure(level="warning")
    token = join_tokens.make(now=system.SystemClock().now(), ttl_s=ttl or None, description=description)

    async def work(client: Client) -> None:
        await join_tokens.create(client, token)

    endpoint, _ = _at_server(server, work)
    if as_json:
        authority = endpoint.certificate_authority
        where = {"server": endpoint.server, "ca_hash": None if authority is None else pinning.pin(authority)}
        output.document({"token": token.text, **_told(token), **where})
    else:
        click.echo(token.text)


@command.command("list", cls=Command, examples=[("rota token list", "which tokens there are, and until when")])
@output.json_option
@_server_options
def list_(*, as_json: bool, **server: Any) -> None:
    """List tokens, without their secret halves."""
    logs.configure(level="warning")
    _, tokens = _at_server(server, join_tokens.list_tokens)
    if as_json:
        output.document([_told(one) for one in tokens])
        return
    now = system.SystemClock().now()
    rows = [[one.identifier, _until(one, now), ",".join(one.groups), one.description] for one in tokens]
    output.table(["ID", "GOOD UNTIL", "GROUPS", "DESCRIPTION"], rows)


@command.command(
    "delete",
    cls=Command,
    examples=[
        ("rota token delete abcdef", "no more workers join with it; those that have joined stay"),
        ("rota token delete abcdef ghijkl", "several"),
    ],
)
@click.argument("tokens", metavar="ID...", nargs=-1, required=True)
@output.json_option
@_server_options
def delete(*, tokens: tuple[str, ...], as_json: bool, **server: Any) -> None:
    """Take tokens back, by their ids or whole."""
    logs.configure(level="warning")
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
    """Have something done at the cluster that is meant; which one that is, and what came of it."""
    endpoint = endpoints.own_cluster(**server)

    async def ask() -> _T:
        clock, chance = system.SystemClock(), system.chance()
        async with connecting.to_server(endpoint, clock=clock, chance=chance) as client:
            return await work(client)

    try:
        return endpoint, asyncio.run(ask())
    except (api_errors.ApiError, TransportError) as error:
        raise errors.UserError(f"{endpoint.server}: {error}", "is it running, and may you do this?") from error
