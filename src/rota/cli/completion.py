"""`rota completion`: the script by which a shell completes our commands."""

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
    # Not `completer.source()`: for bash that starts a bash, and this one need not be on the machine.
    click.echo(completer.source_template % completer.source_vars())
