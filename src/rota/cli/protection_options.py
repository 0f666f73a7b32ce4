"""The options by which an operator says how much a server takes on, and what it takes down."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from rota.apiserver.flow_control.settings import Limits

_F = TypeVar("_F", bound=Callable[..., Any])
_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_DEFAULTS: Final = Limits()


def protection_options(command: _F) -> _F:
    """`--audit-*` and limits; give what comes of the latter to `limits`."""
    for option in reversed(
        (
            click.option(
                "--audit-log", type=_FILE, metavar="FILE", help="Take down who asked for what, as lines of JSON."
            ),
            click.option(
                "--audit-policy",
                type=_FILE,
                metavar="FILE",
                help="What to take down, an audit.k8s.io/v1 Policy.  [default: everything but health, without bodies]",
            ),
            click.option(
                "--max-requests",
                type=click.IntRange(min=1),
                default=_DEFAULTS.seats,
                show_default=True,
                metavar="N",
                help="Requests under way at once; a list counts for several.",
            ),
            click.option(
                "--request-timeout",
                type=click.FloatRange(min=0, min_open=True),
                default=_DEFAULTS.request_s,
                show_default=True,
                metavar="SECONDS",
                help="How long a request may take that is no stream.",
            ),
            click.option(
                "--requests-per-second",
                type=click.FloatRange(min=0, min_open=True),
                metavar="N",
                help="How many requests one user may send, besides heartbeats.  [default: no limit]",
            ),
        )
    ):
        command = option(command)
    return command


def limits(*, max_requests: int, request_timeout: float, requests_per_second: float | None) -> Limits:
    """The limits that the options mean."""
    return Limits(
        seats=max_requests,
        request_s=request_timeout,
        rate_per_user=requests_per_second,
        burst_per_user=max(1, round(2 * requests_per_second)) if requests_per_second else _DEFAULTS.burst_per_user,
    )
