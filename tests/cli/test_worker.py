"""`rota worker`: what it makes of its options, without a master."""

from pathlib import Path

import pytest

from rota.cli.main import main

JOIN = ("--join", "https://127.0.0.1:1", "--token", "abcdef.0123456789abcdef")
HASH = ("--ca-hash", "sha256:" + "0" * 64)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "was told no master"),
        (JOIN, "give --ca-hash"),
        (("--join", "m1", "--token", "secret", *HASH), "joins with a token like"),
        (("--join", "http://m1:6443", "--token", JOIN[3], *HASH), "is no address of a master"),
        (("--join", "https://m1:port", "--token", JOIN[3], *HASH), "has no valid port"),
        ((*JOIN, "--ca-hash", "md5:1"), "it is sha256:"),
        ((*JOIN, "--ca", "/nowhere/ca.crt"), "cannot read /nowhere/ca.crt"),
        ((*JOIN, "--kubeconfig", "/nowhere/config"), "--kubeconfig replaces --join"),
        (("--kubeconfig", "/nowhere/config"), "there is no kubeconfig at /nowhere/config; name the file that leads"),
        (("--taints", "a=b:Never"), "is not KEY[=VALUE]:EFFECT"),
        (("--taints", "NoSchedule"), "is not KEY[=VALUE]:EFFECT"),
        (("--resources", "cpu=much"), "is no amount of cpu"),
        (("--resources", "cpu=-1"), "cannot be less than nothing"),
        (("--reserve", "memory=lots"), "is no amount of memory"),
        (("--runtime", "vm"), "'vm' is not one of"),
        (("--pids", "0"), "0 is not in the range"),
        (("--labels", "a"), "is not KEY=VALUE"),
        (("--name", "W_1"), "is no name for a node"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_membership(
    arguments: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["worker", "--data", str(tmp_path / "w"), "--port", "0", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not (tmp_path / "w" / "kubeconfig").exists()
