"""The protocol through a child's standard input and output: answers, deaths, silence, and other languages."""

import asyncio
import os
import random
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.scheduler.extenders.conftest import Farm

from rota.kit.backoff import Jitter, Policy
from rota.kit.system import SystemClock
from rota.scheduler.config.wire import Extender as Settings
from rota.scheduler.extenders.extender import ExchangeError, WireExtender
from rota.scheduler.extenders.process import ProcessExchange
from rota.testing import clusters

POD = clusters.make_pod("web")

PYTHON = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    {reply}
    print(json.dumps({{"id": request["id"], "body": answer}}), flush=True)
"""

PERL = r"""
use strict; use warnings; use JSON::PP; $| = 1;
while (my $line = <STDIN>) {
    my $request = decode_json($line);
    my $answer = $request->{verb} eq "filter"
        ? { NodeNames => [ grep { $_ ne "n1" } @{ $request->{body}{NodeNames} } ],
            FailedNodes => { n1 => "no, says perl" } }
        : [ map { { Host => $_, Score => 7 } } @{ $request->{body}{NodeNames} } ];
    print encode_json({ id => $request->{id}, body => $answer }), "\n";
}
"""


class StandingClock(SystemClock):
    """Real timers, but time itself moves only when a test says so: restarts can be awaited without waiting."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 100.0

    def monotonic(self) -> float:
        return self.at


Run = Callable[..., ProcessExchange]


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
async def run(clock: StandingClock) -> AsyncIterator[Run]:
    made: list[ProcessExchange] = []

    def make(*command: str, timeout_s: float = 20.0) -> ProcessExchange:
        policy = Policy(initial_s=1, cap_s=8, jitter=Jitter.NONE)
        exchange = ProcessExchange(command, timeout_s=timeout_s, clock=clock, rng=random.Random(1), restarts=policy)
        made.append(exchange)
        return exchange

    yield make
    for exchange in made:
        await exchange.close()


def python(reply: str) -> tuple[str, str, str, str]:
    """Build a child that has the request in `request` and is to put its answer's body into `answer`."""
    return sys.executable, "-S", "-c", PYTHON.format(reply=reply)


async def test_many_questions_at_once_get_each_its_own_answer(run: Run) -> None:
    exchange = run(*python("answer = [request['verb'], request['body']]"))
    answers = await asyncio.gather(*(exchange.ask("twice", str(number).encode()) for number in range(50)))
    assert answers == [f'["twice", {number}]'.encode() for number in range(50)]


async def test_answers_may_come_in_any_order(run: Run) -> None:
    script = "import sys\nlines = [sys.stdin.readline() for _ in range(2)]\n"
    script += 'print(\'{"id": 2, "body": "second"}\\n{"id": 1, "body": "first"}\', flush=True)\n'
    script += "sys.stdin.read()"
    exchange = run(sys.executable, "-S", "-c", script)
    first, second = await asyncio.gather(exchange.ask("v", b"1"), exchange.ask("v", b"2"))
    assert (first, second) == (b'"first"', b'"second"')


async def test_a_child_may_refuse_a_single_request(run: Run) -> None:
    script = 'import sys\nsys.stdin.readline()\nprint(\'{"id": 1, "error": "not today"}\', flush=True)\n'
    exchange = run(sys.executable, "-S", "-c", script + "sys.stdin.read()")
    with pytest.raises(ExchangeError, match="not today"):
        await exchange.ask("filter", b"{}")


@pytest.mark.slow
async def test_a_child_that_dies_is_started_again_after_a_growing_pause(run: Run, clock: StandingClock) -> None:
    exchange = run(*python("sys.exit(7) if request['body'] == 'die' else None; answer = 'well'"))
    assert await exchange.ask("v", b'"live"') == b'"well"'
    for pause in (1, 2, 4):
        with pytest.raises(ExchangeError, match="the process ended with code 7"):
            await exchange.ask("v", b'"die"')
        with pytest.raises(ExchangeError, match=f"code 7; it is started again in {pause}.0 s"):
            await exchange.ask("v", b'"live"')
        clock.at += pause
    assert await exchange.ask("v", b'"live"') == b'"well"'
    with pytest.raises(ExchangeError, match="code 7"):
        await exchange.ask("v", b'"die"')
    with pytest.raises(ExchangeError, match=r"in 1\.0 s"):  # a good answer cleared the record
        await exchange.ask("v", b'"live"')


async def test_all_pending_requests_fail_when_the_child_ends(run: Run) -> None:
    exchange = run(sys.executable, "-S", "-c", "import sys\nfor _ in range(3): sys.stdin.readline()\nsys.exit(1)")
    answers = await asyncio.gather(*(exchange.ask("v", b"1") for _ in range(3)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["the process ended with code 1"] * 3


@pytest.mark.slow
async def test_a_silent_child_is_cut_off_and_replaced(run: Run, clock: StandingClock) -> None:
    exchange = run(*python("answer = 'well'\n    if request['body'] == 'hang': sys.stdin.read()"), timeout_s=1.0)
    assert await exchange.ask("v", b'"live"') == b'"well"'
    stuck = exchange.pid
    with pytest.raises(ExchangeError, match="no answer within 1 s"):
        await exchange.ask("v", b'"hang"')
    with pytest.raises(ExchangeError, match="it did not answer within 1 s; it is started again in"):
        await exchange.ask("v", b'"live"')
    clock.at += 1
    assert await exchange.ask("v", b'"live"') == b'"well"'
    assert exchange.pid != stuck


@pytest.mark.slow
async def test_what_a_stuck_child_has_started_goes_with_it(run: Run, tmp_path: Path) -> None:
    exchange = run("sh", "-c", f"sleep 300 & echo $! > {tmp_path}/pid; wait", timeout_s=1.0)
    with pytest.raises(ExchangeError, match="no answer within 1 s"):
        await exchange.ask("v", b"1")
    state = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    async with asyncio.timeout(60):
        while state.exists() and state.read_text().split()[2] != "Z":  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(0.01)


async def test_an_invalid_line_fails_pending_requests_and_is_shown(run: Run) -> None:
    exchange = run(*python("print('debug: here', flush=True); answer = 1"))
    with pytest.raises(ExchangeError, match=r"malformed answer: .*debug: here"):
        await exchange.ask("filter", b"{}")


async def test_a_program_that_is_not_there_is_an_error_and_tried_again_later(run: Run, clock: StandingClock) -> None:
    exchange = run("/nonexistent/extender")
    with pytest.raises(ExchangeError, match="cannot be started: No such file"):
        await exchange.ask("filter", b"{}")
    with pytest.raises(ExchangeError, match=r"cannot be started; it is started again in 1\.0 s"):
        await exchange.ask("filter", b"{}")
    clock.at += 1
    with pytest.raises(ExchangeError, match="No such file"):
        await exchange.ask("filter", b"{}")


async def test_closing_lets_the_child_leave(run: Run, tmp_path: Path) -> None:
    farewell = tmp_path / "farewell"
    script = 'import sys\nfor line in sys.stdin: print(\'{"id": 1, "body": 1}\', flush=True)\n'
    script += f"open({str(farewell)!r}, 'w')"
    exchange = run(sys.executable, "-S", "-c", script)
    await exchange.ask("v", b"1")
    pid = exchange.pid
    assert pid is not None
    await exchange.close()
    assert farewell.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ExchangeError, match="was closed"):
        await exchange.ask("v", b"1")


@pytest.mark.skipif(shutil.which("perl") is None, reason="needs perl")
async def test_an_extender_in_another_language_filters_and_rates(run: Run, farm: Farm) -> None:
    settings = Settings(
        command=("perl", "-e", PERL), filter_verb="filter", prioritize_verb="rate", weight=1, node_cache_capable=True
    )
    extender = WireExtender(settings, "perl", exchange=run(*settings.command), cluster_reader=farm)
    verdict = await extender.filter(POD, ["n1", "n2"])
    assert (verdict.feasible, verdict.failed) == (("n2",), {"n1": "no, says perl"})
    assert await extender.prioritize(POD, ["n2"]) == {"n2": 7}
