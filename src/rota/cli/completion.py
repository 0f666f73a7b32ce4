"""`rota completion`: print the completion script of a shell."""

from typing import Final

import click
from click import shell_completion

from rota.cli.command_types import COMPLETION_VARIABLE, Command

_SHELLS: Final = ("bash", "zsh", "fish")


@click.command(
    "completion",
    cls=Command,
    examples=[
        ("""echo 'eval "$(rota completion bash)"' >> ~/.bashrc""", "bash, from the next shell on"),
        ("""echo 'eval "$(rota completion zsh)"' >> ~/.zshrc""", "zsh, from the next shell on"),
        ("rota completion fish > ~/.config/fish/completions/rota.fish", "fish"),
    ],
)
@click.argument("shell", type=click.Choice(_SHELLS))
def command(*, shell: str) -> None:
    """Print a script that completes commands and options in SHELL."""
    kind = shell_completion.get_completion_class(shell)
    assert kind is not None
    completer = kind(click.get_current_context().find_root().command, {}, "rota", COMPLETION_VARIABLE)
    # `completer.source()` would start bash to find its version; bash may not be installed here.
    click.echo(completer.source_template % completer.source_vars())
