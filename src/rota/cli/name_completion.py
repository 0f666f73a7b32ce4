"""What a shell is offered where the name of a kind or of an object is expected.

The server is asked (`commands.completion_source`), once and briefly. Whoever has none, or a slow one, is offered the
kinds that most people mean, and no names.
"""

from collections.abc import Callable
from typing import Final

import click
from click.shell_completion import CompletionItem

#: For when nobody can be asked.
COMMON: Final = (
    "configmaps", "cronjobs", "daemonsets", "deployments", "events", "jobs", "leases", "namespaces", "nodes",
    "poddisruptionbudgets", "pods", "priorityclasses", "replicasets", "secrets", "services", "statefulsets",
)  # fmt: skip


def complete_kind_and_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """First a kind, then names of its objects; `kind/na` completes a name too."""
    from rota.cli.commands import completion_source  # noqa: PLC0415 - only when a shell asks

    words = tuple(ctx.params.get(param.name or "") or ())
    if "/" in incomplete:
        kind = incomplete.partition("/")[0]
        offered = [f"{kind}/{name}" for name in completion_source.names(ctx.params, kind)]
    elif words:
        offered = completion_source.names(ctx.params, words[0])
    else:
        offered = completion_source.kinds(ctx.params) or list(COMMON)
    return [CompletionItem(one) for one in offered if one.startswith(incomplete) and one not in words]


def complete_names(kind: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Names of the objects of one kind; of others too, where `kind/` is written first."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from rota.cli.commands import completion_source as commands_completion_source  # noqa: PLC0415 - only when a shell asks

        if "/" in incomplete:
            return complete_kind_and_names(ctx, param, incomplete)
        return [
            CompletionItem(one)
            for one in commands_completion_source.names(ctx.params, kind)
            if one.startswith(incomplete)
        ]

    return complete
