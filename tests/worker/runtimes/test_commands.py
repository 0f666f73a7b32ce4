"""What runs when there is no image, and what is said about it."""

from typing import Any

import pytest

from rota.worker.runtimes.process import commands
from rota.worker.runtimes.runtime_interface import Launch, LaunchError


def _launch(image: str, *, command: tuple[str, ...] = (), args: tuple[str, ...] = ()) -> Launch:
    fields: dict[str, Any] = {"uid": "u", "namespace": "n", "pod": "p", "container": "c", "run": 0}
    return Launch(**fields, image=image, command=command, args=args, env={"PATH": "/usr/bin:/bin"})


def test_a_command_is_run_whatever_the_image_is() -> None:
    launch = _launch("busybox:1.36", command=("sh", "-c"), args=("true",))
    assert commands.command(launch) == ["sh", "-c", "true"]
    assert commands.remark(launch).startswith(
        'image "busybox:1.36" is not used: "sh" runs as a process of this machine'
    )


def test_an_image_that_is_a_program_is_run() -> None:
    launch = _launch("/bin/echo", args=("hi",))
    assert commands.command(launch) == ["/bin/echo", "hi"]
    assert commands.remark(launch) == ""


def test_args_that_begin_with_a_program_are_run_as_kubectl_writes_them() -> None:
    launch = _launch("registry.example/image:1", args=("echo", "hi"))
    assert commands.command(launch) == ["echo", "hi"]
    assert "runtimeClassName: container" in commands.remark(launch)


@pytest.mark.parametrize("args", [(), ("--verbose",)])
def test_what_only_the_image_could_know_is_said_with_the_remedy(args: tuple[str, ...]) -> None:
    with pytest.raises(LaunchError) as refused:
        commands.command(_launch("registry.example/nginx:1", args=args))
    assert 'image "registry.example/nginx:1" is not used' in refused.value.message
    assert "runtimeClassName: container" in refused.value.message


@pytest.mark.parametrize("image", ["", "none", "process"])
def test_there_is_no_note_about_an_empty_image(image: str) -> None:
    assert commands.remark(_launch(image, command=("true",))) == ""
    with pytest.raises(LaunchError, match="no command specified"):
        commands.command(_launch(image))
