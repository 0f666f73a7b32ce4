"""What a container's variables can do to the programs that prepare it: nothing."""

from hypothesis import given
from hypothesis import strategies as st

from rota.worker.runtimes.process import environment_sanitizer

_NAMES = st.one_of(
    st.sampled_from(["PATH", "LD_PRELOAD", "LD_AUDIT", "ENV", "BASH_FUNC_mount%%", "IFS", "HOME", "COLOUR"]),
    st.text(alphabet="ABC_", min_size=1, max_size=8),
)


@given(st.dictionaries(_NAMES, st.text(max_size=10)))
def test_all_variables_reach_the_container_and_none_that_tells_programs_what_to_do_the_others(
    variables: dict[str, str],
) -> None:
    seen = environment_sanitizer.environment(variables)
    assert not [name for name in seen if name.startswith(("LD_", "BASH")) or name in {"ENV", "IFS"}]
    assert seen["PATH"] == environment_sanitizer.environment({})["PATH"]
    found = dict(seen)
    command = environment_sanitizer.restored(variables)
    if command[1:3] == ["-u", "PATH"]:
        del found["PATH"], command[1:3]
    found |= dict(one.split("=", 1) for one in command[1:])
    assert found == variables


def test_a_container_with_the_agents_own_path_needs_nothing() -> None:
    assert environment_sanitizer.restored({"PATH": environment_sanitizer.environment({})["PATH"], "HOME": "/x"}) == []
