"""The table of verbs and what each verb owes its user."""

import importlib
import json

import click
import pytest
from click.testing import CliRunner

import rota
from rota.cli import verbs
from rota.cli.command_types import Command
from rota.cli.main import root


@pytest.fixture
def run() -> CliRunner:
    return CliRunner()


@pytest.mark.parametrize("verb", verbs.VERBS.values(), ids=lambda verb: verb.name)
class TestEveryVerb:
    def test_has_a_command_of_its_name_with_help_and_examples(self, verb: verbs.Verb) -> None:
        command = root.get_command(click.Context(root), verb.name)
        assert isinstance(command, Command)
        assert command.name == verb.name
        assert command.help
        assert command.examples
        assert all(verb.name in line for line, _ in command.examples)

    def test_is_summed_up_in_one_short_line(self, verb: verbs.Verb) -> None:
        assert 0 < len(verb.summary) <= 70
        assert not verb.summary.endswith(".")
        assert "\n" not in verb.summary

    def test_shows_its_examples_under_help(self, verb: verbs.Verb, run: CliRunner) -> None:
        shown = run.invoke(root, [verb.name, "--help"])
        assert shown.exit_code == 0
        assert "Examples:" in shown.output


def test_no_verb_is_listed_twice() -> None:
    assert [verb.name for members in verbs.SECTIONS.values() for verb in members] == list(verbs.VERBS)


def test_help_lists_every_verb_with_its_summary(run: CliRunner) -> None:
    for arguments in (["--help"], ["-h"], []):
        shown = run.invoke(root, arguments)
        assert shown.exit_code == 0
        for verb in verbs.VERBS.values():
            assert f"{verb.name} " in shown.output
            assert verb.summary in shown.output


def test_the_version_is_printed_in_every_format(run: CliRunner) -> None:
    for option in ("--version", "-V"):
        assert run.invoke(root, [option], prog_name="rota").output == f"rota {rota.__version__}\n"
    facts = json.loads(run.invoke(root, ["version", "--json"]).output)
    assert facts["rota"] == rota.__version__
    assert {"python", "sqlite", "msgspec"} <= facts.keys()
    assert run.invoke(root, ["version"]).output.splitlines()[1].split() == ["rota", rota.__version__]


@pytest.mark.parametrize("verb", ["master", "extender"])
def test_nothing_listens_beyond_loopback_by_default(verb: str) -> None:
    command = importlib.import_module(f"rota.cli.{verb}").command
    [address] = [one.default for one in command.params if one.name in {"host", "listen"}]
    assert address.startswith("127.0.0.1")
