"""The real `rota` process: exit codes, standard error, pipes, signals, completion."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROTA = str(Path(sys.executable).with_name("rota"))

#: Runs `rota` with one more verb, `try`, whose body is given as the first argument.
WITH_TRY = """
import sys, types
import click
from rota.cli import verbs
from rota.cli.main import main
module = sys.modules["rota.cli.try"] = types.ModuleType("rota.cli.try")
body = compile(sys.argv.pop(1), "body", "exec")
module.command = click.Command("try", callback=lambda: exec(body))
verbs.VERBS["try"] = verbs.Verb("try", "Run the body")
sys.exit(main())
"""


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def run_body(body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-c", WITH_TRY, body, "try", **environment)


def test_python_m_rota_is_rota() -> None:
    assert run(sys.executable, "-m", "rota", "--version").stdout == run(ROTA, "--version").stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["verison"], "rota: no such command 'verison'. Did you mean 'version'? See 'rota --help'"),
        (["xyzzy"], "rota: no such command 'xyzzy'; see 'rota --help'"),
        (["--bogus"], "rota: no such option '--bogus'; see 'rota --help'"),
        (["version", "--bogus"], "rota: no such option '--bogus'; see 'rota version --help'"),
        (["version", "extra"], "rota: got unexpected extra argument (extra); see 'rota version --help'"),
    ],
)
def test_a_mistyped_command_gets_one_line_and_exit_code_2(arguments: list[str], line: str) -> None:
    done = run(ROTA, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line + "\n")


RAISE_USER_ERROR = "from rota.kit.errors import UserError; raise UserError('no server\\nat db:5432', 'start one')"


def test_an_error_of_the_user_is_one_line_without_a_traceback() -> None:
    done = run_body(RAISE_USER_ERROR)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "rota: no server at db:5432; start one\n")


def test_debugging_shows_the_traceback_too() -> None:
    done = run_body(RAISE_USER_ERROR, ROTA_DEBUG="1")
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("\nrota: no server at db:5432; start one\n")


def test_a_bug_is_not_dressed_up_as_anything_else() -> None:
    done = run_body("raise TypeError('oops')")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_a_verb_decides_its_exit_code() -> None:
    assert run_body("click.get_current_context().exit(7)").returncode == 7


def test_ctrl_c_ends_quietly_with_130() -> None:
    body = "print('ready', flush=True); import threading; threading.Event().wait()"
    child = subprocess.Popen(
        [sys.executable, "-c", WITH_TRY, body, "try"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
        assert child.stderr.read() == ""


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_leaves_ends_the_output_without_a_word(lines: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    body = f"for _ in range({lines}): click.echo('line')"
    done = subprocess.run(
        [sys.executable, "-c", WITH_TRY, body, "try"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_connection_that_breaks_elsewhere_is_not_taken_for_a_reader_that_left() -> None:
    done = run_body("raise BrokenPipeError('the database')")
    assert done.returncode == 1
    assert "the database" in done.stderr


@pytest.mark.parametrize("no_colour", ["", "1"])
def test_output_is_coloured_on_a_terminal_unless_no_color_is_set(no_colour: str) -> None:
    environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": no_colour}
    controller, terminal = pty.openpty()
    done = subprocess.run([ROTA, "version"], stdout=terminal, stderr=terminal, check=False, env=environment)
    os.close(terminal)
    shown = os.read(controller, 65536).decode()
    os.close(controller)
    assert done.returncode == 0
    assert "msgspec" in shown
    assert ("\x1b[" in shown) == (not no_colour)


def test_help_and_completion_import_neither_verbs_nor_heavy_libraries() -> None:
    script = """
import json, os, sys
from rota.cli.main import main
main(["--help"])
os.environ.update(_ROTA_COMPLETE="bash_complete", COMP_WORDS="rota ", COMP_CWORD="1")
main([])
heavy = {"rich", "numpy", "msgspec", "asyncio", "prometheus_client"}
print(json.dumps([name for name in sys.modules if name in heavy or name == "rota.cli.version"]))
"""
    done = run(sys.executable, "-c", script)
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_a_wrong_option_of_any_verb_is_refused_without_heavy_libraries() -> None:
    """Which of them take long to import: a second and more for all of these together."""
    script = """
import json, sys
from rota.cli import verbs
from rota.cli.main import main
heavy = {"rich", "numpy", "msgspec", "asyncio", "aiohttp", "cryptography", "uvloop", "prometheus_client"}
loaded = {}
for verb in verbs.VERBS:
    assert main([verb, "--no-such-option"]) == 2
    loaded[verb] = sorted(heavy & sys.modules.keys())
print(json.dumps({verb: names for verb, names in loaded.items() if names}))
"""
    done = run(sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}


@pytest.mark.slow
def test_client_commands_do_not_load_the_server() -> None:
    """Servers, controllers, workers and stores take seconds to import on a busy machine; their clients need none."""
    script = """
import importlib, json, pkgutil, sys
from rota.cli import commands as acts
for one in pkgutil.iter_modules(acts.__path__):
    importlib.import_module(f"rota.cli.commands.{one.name}")
servers = {"rota.assembly", "rota.control_plane", "rota.apiserver.server.app", "rota.controllers.controller_registry",
"rota.worker.agent"}
print(json.dumps(sorted(servers & sys.modules.keys())))
"""
    done = run(sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


@pytest.mark.slow
def test_a_wrong_option_costs_less_than_a_quarter_of_a_second() -> None:
    before = os.times()
    run(ROTA, "run", "--no-such-option")
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    # More than the goal, which a quiet machine meets threefold: here others use the caches too.
    assert spent < 0.75


def test_a_group_without_a_verb_shows_its_help_as_it_is() -> None:
    done = run(ROTA, "token")
    assert (done.returncode, done.stdout) == (2, "")
    assert "\n  create  Create a token" in done.stderr


@pytest.mark.parametrize("words", [["run"], ["token", "create"], []])
def test_help_is_a_command_too(words: list[str]) -> None:
    asked, shown = run(ROTA, "help", *words), run(ROTA, *words, "--help")
    assert asked.returncode == 0
    assert asked.stdout.splitlines()[2:] == shown.stdout.splitlines()[2:]


def test_exit_codes_are_explained_and_wrong_subjects_refused() -> None:
    assert "125" in run(ROTA, "help", "exit-codes").stdout
    done = run(ROTA, "help", "nothing")
    assert (done.returncode, done.stderr) == (2, "rota: there is no command 'nothing'; see 'rota help --help'\n")


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_there_is_a_script_for_every_shell(self, shell: str) -> None:
        done = run(ROTA, "completion", shell)
        assert done.returncode == 0
        assert "_ROTA_COMPLETE" in done.stdout

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_verbs_are_completed(self, shell: str) -> None:
        asked = {"_ROTA_COMPLETE": f"{shell}_complete", "COMP_WORDS": "rota ver", "COMP_CWORD": "1"}
        if shell == "fish":
            asked["COMP_CWORD"] = "ver"
        answer = run(ROTA, **asked).stdout
        assert "version" in answer
        assert "completion" not in answer

    @pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
    @pytest.mark.parametrize(
        ("typed", "offered"), [("ver", "version"), ("completion f", "fish"), ("version --js", "--json")]
    )
    def test_bash_really_completes(self, typed: str, offered: str) -> None:
        words = typed.split()
        script = (
            'eval "$(rota completion bash)"\n'
            f"COMP_WORDS=(rota {typed}); COMP_CWORD={len(words)}; COMPREPLY=()\n"
            '"$(complete -p rota | sed "s/.*-F \\([^ ]*\\).*/\\1/")" rota\n'
            'echo "${COMPREPLY[@]}"\n'
        )
        path = f"{Path(ROTA).parent}{os.pathsep}{os.environ['PATH']}"
        done = run("bash", "--norc", "-c", script, PATH=path)
        assert (done.stdout.strip(), done.stderr) == (offered, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_disk_behind_the_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([ROTA, "version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.stderr == "rota: cannot write to standard output: No space left on device\n"
    assert ended.returncode == 2
