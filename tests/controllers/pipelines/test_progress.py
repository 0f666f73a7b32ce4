"""What became of the steps of a run, kept change by change."""

from hypothesis import given
from hypothesis import strategies as st

from rota.controllers.pipelines.progress import Progress
from rota.controllers.pipelines.states import BLOCKED, Phase, StepKey, StepState

KEYS = st.tuples(st.sampled_from(["a", "b"]), st.none() | st.integers(0, 4))
STATES = st.builds(
    StepState, phase=st.sampled_from(Phase), reason=st.sampled_from(["", BLOCKED]), node=st.sampled_from(["", "n", "m"])
)


@given(st.lists(st.tuples(KEYS, st.none() | STATES)))
def test_however_it_came_about_it_is_what_the_step_runs_say(changes: list[tuple[StepKey, StepState | None]]) -> None:
    progress = Progress()
    truth: dict[StepKey, StepState] = {}
    for key, state in changes:
        if state is None:
            progress.drop(key)
            truth.pop(key, None)
        else:
            progress.put(key, state)
            truth[key] = state
        assert dict(progress) == truth
        assert len(progress) == len(truth)
        assert progress.going == sum(not one.phase.over for one in truth.values())
        for phase in Phase:
            assert progress.phases[phase] == sum(one.phase is phase for one in truth.values())
        for name in ("a", "b"):
            own = {index: one for (step, index), one in truth.items() if step == name}
            tally = progress.of(name)
            assert (tally is None) is (not own)
            if tally is not None:
                assert tally.going == {index for index, one in own.items() if not one.phase.over}
                assert tally.blocked == sum(one.reason == BLOCKED for one in own.values())
                assert {node for node, count in tally.nodes.items() if count} == {
                    one.node for one in own.values() if one.node
                }
                assert tally.lowest == next(index for index in range(6) if index not in own)


def test_what_was_worked_out_is_forgotten_when_what_it_came_from_changes() -> None:
    done, going = StepState(phase=Phase.SUCCEEDED), StepState(phase=Phase.RUNNING)
    progress = Progress({("a", 0): done, ("a", 1): going})
    progress.remembered["a",] = [1, 2]
    progress.put(("a", 0), done)
    progress.put(("a", 1), done)
    assert progress.remembered == {("a",): [1, 2]}
    progress.put(("a", 1), StepState(phase=Phase.SUCCEEDED, outputs={"x": "1"}))
    assert progress.remembered == {}
    progress.remembered["a",] = [1, 2]
    progress.drop(("a", 0))
    assert progress.remembered == {}
