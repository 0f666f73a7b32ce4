"""The options for the audit log, for admission, and for the limits on requests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from rota.apiserver.flow_control.settings import Limits

_F = TypeVar("_F", bound=Callable[..., Any])
_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_DEFAULTS: Final = Limits()


def protection_options(command: _F) -> _F:
    """Add `--audit-*`, the configuration of admission and the limits; pass the values of the latter to `limits`."""
    for option in reversed(
        (
            click.option(
                "--audit-log", type=_FILE, metavar="FILE", help="Write an audit log to this file, as lines of JSON."
            ),
            click.option(
                "--audit-policy",
                type=_FILE,
                metavar="FILE",
                help="The audit policy (audit.k8s.io/v1).  [default: metadata of all requests except health checks]",
            ),
            click.option(
                "--admission-control-config-file",
                "admission_config",
                type=_FILE,
                metavar="FILE",
                help="An AdmissionConfiguration with defaults and exemptions of Pod Security admission.",
            ),
            click.option(
                "--max-requests",
                type=click.IntRange(min=1),
                default=_DEFAULTS.seats,
                show_default=True,
                metavar="N",
                help="Maximum of concurrent requests; a list counts as several.",
            ),
            click.option(
                "--request-timeout",
                type=click.FloatRange(min=0, min_open=True),
                default=_DEFAULTS.request_s,
                show_default=True,
                metavar="SECONDS",
                help="Timeout of requests that are not streams.",
            ),
            click.option(
                "--requests-per-second",
                type=click.FloatRange(min=0, min_open=True),
                metavar="N",
                help="Rate limit per user; heartbeats are exempt.  [default: no limit]",
            ),
        )
    ):
        command = option(command)
    return command


def limits(*, max_requests: int, request_timeout: float, requests_per_second: float | None) -> Limits:
    """The limits of these options."""
    return Limits(
        seats=max_requests,
        request_s=request_timeout,
        rate_per_user=requests_per_second,
        burst_per_user=max(1, round(2 * requests_per_second)) if requests_per_second else _DEFAULTS.burst_per_user,
    )
