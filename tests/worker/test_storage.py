"""What is too much for a pod to have written."""

from typing import Any

import pytest

from rota.worker import storage

MEGABYTE = 1024 * 1024


def _pod(*limits: str | None, size_limit: str | None = None) -> dict[str, Any]:
    empty = {"sizeLimit": size_limit} if size_limit else {}
    volumes = [{"name": "e", "emptyDir": empty}, {"name": "h", "hostPath": {"path": "/"}}]
    containers = [{"name": str(number), "resources": _resources(one)} for number, one in enumerate(limits)]
    return {"spec": {"volumes": volumes, "containers": containers}}


def _resources(limit: str | None) -> dict[str, Any]:
    return {} if limit is None else {"limits": {"ephemeral-storage": limit}}


def test_only_pods_with_limits_are_measured() -> None:
    assert not storage.is_limited(_pod(None))
    assert storage.is_limited(_pod(None, "1Mi"))
    assert storage.is_limited(_pod(None, size_limit="1Gi"))
    assert not storage.is_limited(_pod(None, size_limit="0"))
    assert storage.own_volumes(_pod(None)) == ["e"]


@pytest.mark.parametrize(
    ("pod", "volume", "others", "is_too_much"),
    [
        (_pod("1Mi", "2Mi"), 2 * MEGABYTE, MEGABYTE, False),
        (_pod("1Mi", "2Mi"), 2 * MEGABYTE, MEGABYTE + 1, True),
        (_pod("1Mi", None), 0, MEGABYTE + 1, True),
        (_pod(None, size_limit="1Mi"), MEGABYTE, 9 * MEGABYTE, False),
        (_pod(None, size_limit="1Mi"), MEGABYTE + 1, 0, True),
        (_pod(None), 10**12, 10**12, False),
    ],
)
def test_limits_hold_for_volumes_and_for_all_together(
    pod: dict[str, Any], volume: int, others: int, is_too_much: bool
) -> None:
    assert bool(storage.excess(pod, volumes={"e": volume}, others=others)) is is_too_much
