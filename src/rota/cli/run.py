"""`rota run`: run a command as a pod, with its output and exit code here."""

from typing import Any, Final

import click

from rota.cli import endpoints, options
from rota.cli.command_types import Command

#: Rota could not start the command, or lost it.
NOT_STARTED: Final = 125


@click.command(
    "run",
    cls=Command,
    # Options after the command belong to the command, as with srun and docker run.
    context_settings={"allow_interspersed_args": False},
    examples=[
        ("rota run -- echo hi", "run it, show its output, exit with its code"),
        ("rota run --cpu 2 --memory 4Gi -- python train.py", "on a node with two cores and 4 GiB free"),
        ("rota run --detach --name nightly -- ./backup.sh", "in the background; follow it with rota logs -f nightly"),
        ("rota run -it -- python", "on this terminal; -i alone forwards standard input"),
        ("rota run --env LEVEL=3 --label team=a -- make test", "with an environment variable and a label"),
        ("rota run --rm --wait -- ./report.sh > report.txt", "print the output at the end, then delete the task"),
    ],
)
@click.argument("command_line", metavar="COMMAND [ARG]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--name", default="", metavar="NAME", help="Name of the task.  [default: the command and a random suffix]"
)
@options.namespace_option
@click.option("--cpu", default="", metavar="AMOUNT", help="CPU request: 2, 0.5, 500m.")
@click.option("--memory", default="", metavar="AMOUNT", help="Memory request and limit: 512Mi, 4Gi.")
@click.option("--gpu", type=click.IntRange(1), metavar="N", help="Number of GPUs.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@click.option("--env", "variables", multiple=True, metavar="KEY=VALUE", help="An environment variable; repeatable.")
@click.option("--workdir", metavar="DIR", help="Working directory.  [default: this one, if other users can read it]")
@click.option("--detach", is_flag=True, help="Print the task's name and return.")
@click.option("--wait", "wait_only", is_flag=True, help="Print the output at the end instead of while it runs.")
@click.option("--rm", "remove", is_flag=True, help="Delete the task when it has ended, successful or not.")
@click.option("-i", "--stdin", is_flag=True, help="Forward standard input.")
@click.option("-t", "--tty", is_flag=True, help="Allocate a terminal; implies --stdin.")
@endpoints.own_options
@click.pass_context
def command(
    ctx: click.Context, /, *, detach: bool, wait_only: bool, remove: bool, stdin: bool, tty: bool, **given: Any
) -> None:
    """Run COMMAND on a worker, print its output, and exit with its exit code.

    Options of Rota come before COMMAND. Everything after it belongs to COMMAND; -- between them is optional.

    Standard error shows where the task was placed and why, or what it waits for. Ctrl-C, SIGTERM and SIGHUP terminate
    the task (a second Ctrl-C kills it); its remaining output is printed. The exit code is the command's own, 125 if
    Rota could not start it or lost it, or 128 plus the signal's number if a signal ended it.
    """
    stdin = stdin or tty
    if stdin and (detach or wait_only):
        raise click.UsageError(
            f"--{'detach' if detach else 'wait'} and --{'tty' if tty else 'stdin'} contradict each other"
        )
    if detach and (wait_only or remove):
        raise click.UsageError(f"--detach and --{'wait' if wait_only else 'rm'} contradict each other")
    from rota.cli.commands import task_run  # noqa: PLC0415 - not needed to refuse an option

    how: dict[str, Any] = {"detach": detach, "wait_only": wait_only, "remove": remove, "stdin": stdin, "tty": tty}
    ctx.exit(task_run.run(**how, not_started=NOT_STARTED, **given))
