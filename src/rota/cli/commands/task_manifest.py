"""The pod manifest of a `rota run` command line. Pure."""

import re
from pathlib import Path
from typing import Any, Final

import click

from rota.api import quantities

CONTAINER: Final = "main"
_GPU: Final = "nvidia.com/gpu"


def manifest(
    command_line: tuple[str, ...],
    *,
    namespace: str,
    name: str,
    cpu: str,
    memory: str,
    gpu: int | None,
    labels: tuple[str, ...],
    variables: tuple[str, ...],
    workdir: str | None,
    stdin: bool = False,
    tty: bool = False,
    terminal: str = "",
) -> dict[str, Any]:
    """The pod that runs a command; with a `tty`, `terminal` is its type, as with ssh."""
    environment = ({"TERM": terminal} if tty and terminal else {}) | _pairs("--env", variables)
    requests = {"cpu": cpu, "memory": memory, _GPU: str(gpu) if gpu else ""}
    for option, amount in (("--cpu", cpu), ("--memory", memory)):
        _check_amount(option, amount)
    asked = {one: amount for one, amount in requests.items() if amount}
    # Memory and devices are not shared, so they have limits; unused CPU may be used by others.
    limits = {one: amount for one, amount in asked.items() if one != "cpu"}
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": "process",
        # A dollar sign belongs to the command; it is not a reference to a variable of the pod.
        "command": [word.replace("$", "$$") for word in command_line],
        **({"workingDir": workdir} if workdir else {}),
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "resources": {"requests": asked, "limits": limits},
    }
    if stdin:
        container |= {"stdin": True, "stdinOnce": True, "tty": tty}
    metadata: dict[str, Any] = {"namespace": namespace, "labels": _pairs("--label", labels)}
    metadata |= {"name": name} if name else {"generateName": f"{_stem(command_line[0])}-"}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} {text}: write KEY=VALUE")
        found[key] = value
    return found


def _check_amount(option: str, text: str) -> None:
    try:
        quantities.parse(text or "0")
    except quantities.QuantityError:
        raise click.UsageError(f"{option} {text}: no amount; write 2, 500m or 4Gi") from None


def _stem(word: str) -> str:
    """A name prefix, from a command."""
    return re.sub(r"[^a-z0-9-]+", "-", Path(word).name.lower()).strip("-")[:40] or "task"
