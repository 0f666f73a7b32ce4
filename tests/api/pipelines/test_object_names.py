"""Names of what belongs to a run."""

from hypothesis import given
from hypothesis import strategies as st

from rota.api import names
from rota.api.pipelines import object_names

STEPS = st.from_regex(r"[a-c0-1](?:[a-c0-1-]{0,6}[a-c0-1])?", fullmatch=True)
RUNS = st.from_regex(r"[a-c0-1](?:[a-c0-1.-]{0,8}[a-c0-1])?", fullmatch=True).filter(
    lambda name: not names.check_dns1123_subdomain(name)
)
PLACES = st.tuples(RUNS, STEPS, st.none() | st.integers(0, 12))


def test_names_say_where_something_belongs() -> None:
    assert object_names.step_run("train-x7k2p", "fit", None) == "train-x7k2p-fit"
    assert object_names.step_run("train-x7k2p", "fit", 3) == "train-x7k2p-fit-3"
    assert object_names.step_run("train", "fit-it", None).startswith("train-fit-it-")


def test_places_that_read_alike_have_different_names() -> None:
    assert object_names.step_run("a", "b-c", None) != object_names.step_run("a-b", "c", None)
    assert object_names.step_run("a", "b", 0) != object_names.step_run("a", "b-0", None)
    assert object_names.step_run("a", "b", 0) != object_names.step_run("a-b", "0", None)


@given(PLACES, PLACES)
def test_no_two_places_have_one_name(one: tuple[str, str, int | None], other: tuple[str, str, int | None]) -> None:
    assert (object_names.step_run(*one) == object_names.step_run(*other)) is (one == other)


@given(st.integers(0, 250))
def test_names_and_labels_are_valid_wherever_they_are_cut(length: int) -> None:
    name = ("ab-c." * 63)[:length] + "zz"
    assert names.check_label_value(object_names.label(name)) == []
    assert names.check_dns1123_subdomain(object_names.step_run(name, "step", 100)) == []
    assert object_names.label(f"{name}z") != object_names.label(name)
