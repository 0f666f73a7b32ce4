"""Settings written as a document again, and durations as Go writes them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.scheduler.config import durations, encoder, resolution
from rota.scheduler.config.durations import Duration

FULL = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False, "leaseDuration": "1m30s"},
    "profiles": [
        {
            "schedulerName": "a",
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality", "weight": 5}]}},
            "pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/x"]}}],
        }
    ],
    "extenders": [
        {
            "urlPrefix": "https://gpu.example",
            "filterVerb": "filter",
            "httpTimeout": "250ms",
            "enableHTTPS": True,
            "tlsConfig": {"caData": "Y2VydA=="},
            "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
        },
        {"command": ["/opt/extender", "--fast"], "bindVerb": "bind"},
    ],
}


def test_what_is_written_reads_as_it_was() -> None:
    settings = resolution.read(FULL)
    document = encoder.to_document(settings)
    assert resolution.read(document) == settings
    assert document["leaderElection"]["leaseDuration"] == "1m30s"
    assert document["extenders"][0]["httpTimeout"] == "250ms"
    assert document["extenders"][0]["tlsConfig"]["caData"] == "Y2VydA=="


def test_private_keys_are_not_written() -> None:
    extender = {"urlPrefix": "https://gpu.example", "tlsConfig": {"keyData": "c2VjcmV0", "certData": "Y2VydA=="}}
    (written,) = encoder.to_document(resolution.read({**FULL, "extenders": [extender]}))["extenders"]
    assert written["tlsConfig"]["certData"] == "Y2VydA=="
    assert "keyData" not in written["tlsConfig"]


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(seconds=15), "15s"),
        (timedelta(minutes=1, seconds=30), "1m30s"),
        (timedelta(hours=2), "2h0m0s"),
        (timedelta(milliseconds=1500), "1.5s"),
        (timedelta(milliseconds=250), "250ms"),
        (timedelta(microseconds=7), "7µs"),
        (timedelta(seconds=-3), "-3s"),
    ],
)
def test_durations_are_written_as_go_writes_them(duration: timedelta, text: str) -> None:
    assert durations.written(duration) == text


@given(st.timedeltas(min_value=timedelta(days=-30), max_value=timedelta(days=30)))
def test_a_written_duration_reads_as_it_was(duration: timedelta) -> None:
    assert durations.parse(durations.written(duration)) == Duration(microseconds=duration // timedelta(microseconds=1))
