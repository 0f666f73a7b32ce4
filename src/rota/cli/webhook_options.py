"""Options of commands that answer the admission reviews of an API server beside their other work."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from rota.cli import certificates, options
from rota.kit import errors

if TYPE_CHECKING:
    import ssl

_F = TypeVar("_F", bound=Callable[..., Any])
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Webhooks:
    """The address at which a webhook answers reviews, and the configuration that the API server gets."""

    address: tuple[str, int] | None
    tls: "ssl.SSLContext | None"
    #: The URL to register, and the CA of its certificate.
    registered: tuple[str, bytes] | None


def webhook_options(command: _F) -> _F:
    """Add the options."""
    for option in (
        click.option("--webhook-ca", type=_FILE, metavar="FILE", help="CA of their certificate, for --webhook-url."),
        click.option(
            "--webhook-url", default="", metavar="URL", help="Register the webhooks at the API server under this URL."
        ),
        click.option("--tls-key", type=_FILE, metavar="FILE", help="Key of the certificate (PEM)."),
        click.option("--tls-cert", type=_FILE, metavar="FILE", help="Certificate of the webhooks (PEM)."),
        click.option(
            "--webhooks",
            type=options.Address(),
            metavar="[HOST:]PORT",
            help="Answer admission reviews on this address.",
        ),
    ):
        command = option(command)
    return command


def chosen(
    *,
    webhooks: tuple[str, int] | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    webhook_url: str,
    webhook_ca: Path | None,
) -> Webhooks:
    """What the options say; `UserError` if they do not fit together."""
    if bool(webhook_url) is not (webhook_ca is not None):
        raise errors.UserError("--webhook-url and --webhook-ca belong together")
    tls = certificates.context(tls_cert, tls_key, client_ca=None)
    if webhooks is not None and tls is None:
        raise errors.UserError("API servers ask webhooks over HTTPS only", "give --tls-cert and --tls-key")
    return Webhooks(webhooks, tls, (webhook_url, webhook_ca.read_bytes()) if webhook_ca is not None else None)
