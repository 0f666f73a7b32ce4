"""`rota.simulate`: simulations from Python, with results as arrays, and as frames if pandas is there."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rota.simulator import experiment, traces
from rota.simulator.engine import Options
from rota.simulator.experiment import Report
from rota.simulator.models import Models
from rota.simulator.policies import DEFAULT, named
from rota.simulator.ties import TieRule
from rota.simulator.traces import FOREVER, Trace


class SimulationResult:
    """What a simulation found."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def document(self) -> dict[str, Any]:
        """Means by policy, the values of every seed, and comparisons on paired seeds; as `rota simulate --json`."""
        return self.report.document()

    def figures(self) -> list[dict[str, Any]]:
        """One row per run: trace, policy, seed, and every figure."""
        return [{"trace": run.trace, "policy": run.policy, "seed": run.seed, **run.figures} for run in self.report.runs]

    def frame(self) -> Any:
        """`figures` as a pandas DataFrame; raises ImportError if pandas is not installed."""
        import pandas as pd  # type: ignore[import-untyped,unused-ignore] # noqa: PLC0415 - optional

        return pd.DataFrame(self.figures())


def simulate(
    trace: str | Path | Trace,
    *,
    policies: Sequence[str] = (DEFAULT,),
    plugins: Sequence[str | Path] = (),
    seeds: Sequence[int] = (experiment.FIRST_SEED,),
    models: Models | None = None,
    ties: str = TieRule.NAME.value,
    until_s: float = FOREVER,
) -> SimulationResult:
    """Run a trace in virtual time by several policies: names, or files of scheduler configurations."""
    workload = trace if isinstance(trace, Trace) else traces.read(Path(trace))
    chosen = [named(name, [Path(each) for each in plugins]) for name in policies]
    options = Options(models=models or Models(), ties=TieRule(ties), until_s=until_s)
    conditions = {"ties": options.ties.value, "mode": "events", "models": options.models.document()}
    runner = experiment.engine_runner(options)
    return SimulationResult(experiment.run([workload], chosen, seeds, runner, conditions=conditions))
