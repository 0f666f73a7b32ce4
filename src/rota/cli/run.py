"""`rota run`: a command, run where there is room for it, as if it were run here."""

from typing import Any, Final

import click

from rota.cli import endpoints, options
from rota.cli.command_types import Command

#: Rota could not start the command, or lost it.
NOT_STARTED: Final = 125


@click.command(
    "run",
    cls=Command,
    # Once the command has begun, options are its own, as with srun and docker run.
    context_settings={"allow_interspersed_args": False},
    examples=[
        ("rota run -- echo hi", "run it, show its output, exit with its code"),
        ("rota run --cpu 2 --memory 4Gi -- python train.py", "where two cores and 4 GiB are free"),
        ("rota run --detach --name nightly -- ./backup.sh", "leave it running; rota logs -f nightly shows it"),
        ("rota run -it -- python", "at this terminal; -i alone hands standard input on"),
        ("rota run --env LEVEL=3 --label team=a -- make test", "with a variable and a label"),
        ("rota run --rm --wait -- ./report.sh > report.txt", "all of its output at the end, and nothing left behind"),
    ],
)
@click.argument("command_line", metavar="COMMAND [ARG]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--name", default="", metavar="NAME", help="What to call it.  [default: the command and some letters]")
@options.namespace_option
@click.option("--cpu", default="", metavar="AMOUNT", help="Cores that it needs: 2, 0.5, 500m.")
@click.option("--memory", default="", metavar="AMOUNT", help="Memory that it needs, and may use at most: 512Mi, 4Gi.")
@click.option("--gpu", type=click.IntRange(1), metavar="N", help="GPUs that it needs.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@click.option("--env", "variables", multiple=True, metavar="KEY=VALUE", help="An environment variable; repeatable.")
@click.option("--workdir", metavar="DIR", help="Where it runs.  [default: here, if other users may come here]")
@click.option("--detach", is_flag=True, help="Print its name and leave it running.")
@click.option("--wait", "wait_only", is_flag=True, help="Show its output when it is done, not before.")
@click.option("--rm", "remove", is_flag=True, help="Delete the task when it is done, whatever came of it.")
@click.option("-i", "--stdin", is_flag=True, help="Hand standard input on.")
@click.option("-t", "--tty", is_flag=True, help="Give it this terminal; hands standard input on too.")
@endpoints.own_options
@click.pass_context
def command(
    ctx: click.Context, /, *, detach: bool, wait_only: bool, remove: bool, stdin: bool, tty: bool, **given: Any
) -> None:
    """Run COMMAND on a worker with room for it, show what it says, and exit with its code.

    Options of Rota stand before COMMAND; all that comes after it belongs to it, with or without -- between them.

    Says on standard error where it was placed and why, or what it waits for. Ctrl-C, SIGTERM and SIGHUP end it (a
    second Ctrl-C at once), and its last words are still shown. The exit code is the command's own; 125 if Rota could
    not start it or lost it, 128 and the signal's number if it was ended by one.
    """
    stdin = stdin or tty
    if stdin and (detach or wait_only):
        raise click.UsageError(
            f"--{'detach' if detach else 'wait'} and --{'tty' if tty else 'stdin'} contradict each other"
        )
    if detach and (wait_only or remove):
        raise click.UsageError(f"--detach and --{'wait' if wait_only else 'rm'} contradict each other")
    from rota.cli.commands import task_run  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    how: dict[str, Any] = {"detach": detach, "wait_only": wait_only, "remove": remove, "stdin": stdin, "tty": tty}
    ctx.exit(task_run.run(**how, not_started=NOT_STARTED, **given))
