"""Shell completion of kinds and names of objects.

The server is asked once with a short timeout (`commands.completion_source`). Without an answer, completion offers the
common kinds and no names.
"""

from collections.abc import Callable
from typing import Final

import click
from click.shell_completion import CompletionItem

#: Offered if no server answers.
COMMON: Final = (
    "configmaps", "cronjobs", "daemonsets", "deployments", "events", "jobs", "leases", "namespaces", "nodes",
    "poddisruptionbudgets", "pods", "priorityclasses", "replicasets", "secrets", "services", "statefulsets",
)  # fmt: skip


def complete_kind_and_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a kind, then names of its objects; `kind/na` completes a name too."""
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
    """Complete names of the objects of one kind, or of another kind after `kind/`."""

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
