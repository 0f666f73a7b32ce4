"""The options for authentication, with kube-apiserver's names."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.kit import errors

if TYPE_CHECKING:
    from rota.apiserver.authentication.oidc_provider import Provider

_F = TypeVar("_F", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path, dir_okay=False)


def sign_in_options(command: _F) -> _F:
    """Add `--token-auth-file` and `--oidc-*`; pass the values of the latter to `providers`."""
    for option in reversed(
        (
            click.option(
                "--token-auth-file",
                "token_file",
                type=_FILE,
                metavar="FILE",
                help='CSV file of accepted bearer tokens: token,user,uid,"group1,group2".',
            ),
            click.option(
                "--oidc-issuer-url",
                metavar="URL",
                help="Accept ID tokens of this OpenID Connect provider; its users sign in to the dashboard there.",
            ),
            click.option("--oidc-client-id", metavar="ID", help="The client ID (audience) of accepted tokens."),
            click.option(
                "--oidc-username-claim", default="sub", show_default=True, help="The claim with the user name."
            ),
            click.option(
                "--oidc-username-prefix",
                default="",
                help="Prefix of user names; '-' for none.  [default: the issuer and '#'; none for the claim email]",
            ),
            click.option("--oidc-groups-claim", default="", help="The claim with the user's groups."),
            click.option("--oidc-groups-prefix", default="", help="Prefix of group names."),
            click.option(
                "--oidc-required-claim",
                multiple=True,
                metavar="KEY=VALUE",
                help="Claim that a token must have; repeatable.",
            ),
            click.option(
                "--oidc-signing-algs",
                default="RS256",
                show_default=True,
                help="Accepted signing algorithms, separated by commas.",
            ),
            click.option(
                "--oidc-ca-file", type=_FILE, metavar="FILE", help="CA bundle that verifies the provider's certificate."
            ),
        )
    ):
        command = option(command)
    return command


def providers(settings: dict[str, Any]) -> tuple["Provider", ...]:
    """The provider that the `oidc_*` options describe, if they are given."""
    from rota.apiserver.authentication.oidc_provider import Provider  # noqa: PLC0415 - not needed to refuse an option

    issuer, client = settings["oidc_issuer_url"], settings["oidc_client_id"]
    if not issuer and not client:
        return ()
    if not issuer or not client:
        raise click.UsageError("--oidc-issuer-url and --oidc-client-id go together")
    return (
        Provider(
            issuer_url=issuer,
            client_id=client,
            username_claim=settings["oidc_username_claim"],
            username_prefix=settings["oidc_username_prefix"],
            groups_claim=settings["oidc_groups_claim"],
            groups_prefix=settings["oidc_groups_prefix"],
            required_claims=dict(map(_pair, settings["oidc_required_claim"])),
            signing_algorithms=tuple(settings["oidc_signing_algs"].split(",")),
            certificate_authority=_read(settings["oidc_ca_file"]),
        ),
    )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.UsageError(f"--oidc-required-claim {text!r} is not KEY=VALUE")
    return key, value


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise errors.UserError(f"cannot read {path}: {error.strerror}", "name a PEM file") from None
