"""What became of tries, and how long to wait for the next one."""

from typing import Any

import pytest

from rota.controllers.pipelines import attempts, objects

META: dict[str, Any] = {"name": "r-a", "namespace": "ns", "uid": "u"}


@pytest.mark.parametrize(("disruptions", "pause"), [(1, 0), (5, 0), (6, 2), (8, 8), (99, 60), (10**9, 60)])
def test_disruptions_are_made_up_for_at_once_unless_there_are_many(disruptions: int, pause: float) -> None:
    assert attempts.pause_after_disruption_s(disruptions) == pause


def test_pauses_grow_up_to_a_limit_and_end_with_the_retries() -> None:
    retries = {"limit": 3, "initialSeconds": 2, "factor": 3, "maxSeconds": 10}
    assert [attempts.pause_s(retries, count) for count in (1, 2, 3, 4)] == [2, 6, 10, None]


@pytest.mark.parametrize(
    ("file", "found"),
    [("x=1\ny = 2\n", {"x": "1"}), ('{"x": [1]}', {"x": "[1]"}), ("{", {}), ('{"x":' * 99_999, {}), ("", {})],
)
def test_outputs_are_lines_or_json_and_nothing_where_they_are_neither(file: str, found: dict[str, str]) -> None:
    read, missing = attempts.outputs([{"name": "x"}], file=file, stdout="")
    assert (read, missing) == (found, [] if found else ["x"])


def test_the_time_of_a_job_is_bounded_as_that_of_a_pod_is() -> None:
    for part, spec in (("template", {"containers": []}), ("job", {"template": {}})):
        made = objects.attempt({"metadata": META, "spec": {part: {"spec": spec}, "timeoutSeconds": 7}}, 0)
        assert made["spec"]["activeDeadlineSeconds"] == 7


def test_a_template_says_neither_where_nor_whose_its_pod_is() -> None:
    template = {"metadata": {"namespace": "kube-system", "name": "x", "ownerReferences": [{"uid": "y"}]}, "spec": {}}
    made = objects.attempt({"metadata": META, "spec": {"template": template}}, 0)
    assert (made["metadata"]["namespace"], made["metadata"]["name"]) == ("ns", "r-a-0")
    assert [one["uid"] for one in made["metadata"]["ownerReferences"]] == ["u"]
