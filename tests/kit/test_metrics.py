"""Metrics of a component are separate and can be scraped."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rota.kit.metrics import Metrics


def test_what_is_counted_can_be_scraped() -> None:
    metrics = Metrics("store")
    metrics.counter("writes_total", "Writes by result.", ["result"]).labels("ok").inc(3)
    metrics.gauge("watchers", "Open watches.").set(2)
    metrics.histogram("write_seconds", "Time per write.").observe(0.003)
    content_type, body = metrics.exposition()
    assert content_type.startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    assert families["rota_store_writes"].samples[0].value == 3
    assert families["rota_store_watchers"].documentation == "Open watches."
    assert metrics.value("writes_total", result="ok") == 3
    assert metrics.value("write_seconds_count") == 1
    assert metrics.value("write_seconds_bucket", le="0.0025") == 0
    assert metrics.value("never_declared") is None


def test_two_parts_in_one_process_do_not_share_figures() -> None:
    first, second = Metrics("store"), Metrics("store")
    first.counter("writes_total", "Writes.").inc()
    second.counter("writes_total", "Writes.")
    assert (first.value("writes_total"), second.value("writes_total")) == (1, 0)


def test_a_part_that_starts_again_finds_its_metrics() -> None:
    metrics = Metrics("store")
    metrics.counter("writes_total", "Writes.").inc()
    metrics.counter("writes_total", "Writes.").inc()
    assert metrics.value("writes_total") == 2


def test_a_metric_cannot_change_its_shape() -> None:
    metrics = Metrics("store")
    metrics.counter("writes_total", "Writes.")
    with pytest.raises(ValueError, match="rota_store_writes_total was declared as"):
        metrics.counter("writes_total", "Writes.", ["result"])


def test_a_scraper_may_ask_for_openmetrics() -> None:
    content_type, body = Metrics("store").exposition("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_a_process_tells_its_memory_if_asked() -> None:
    assert b"process_resident_memory_bytes" in Metrics("api", process=True).exposition()[1]


def test_a_distribution_reads_as_a_histogram_does() -> None:
    metrics = Metrics("part")
    quick = metrics.distribution("quick_seconds", "Durations.", ("how",), buckets=(0.1, 1.0))
    slow = metrics.histogram("slow_seconds", "Durations.", ("how",), buckets=(0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        quick.labels("well").observe(value)
        slow.labels("well").observe(value)
    lines = metrics.exposition()[1].decode().splitlines()
    told = [line for line in lines if line.startswith("rota_part_quick") and "_created" not in line]
    same = [line for line in lines if line.startswith("rota_part_slow") and "_created" not in line]
    assert told == [line.replace("slow", "quick") for line in same]
    assert metrics.distribution("quick_seconds", "Durations.", ("how",), buckets=(0.1, 1.0)) is quick


def test_figures_kept_elsewhere_are_read_when_asked_for() -> None:
    metrics = Metrics("part")
    kept: dict[tuple[str, ...], float] = {("a",): 1.0}
    metrics.follow("things", "Things.", ("kind",), lambda: kept)
    kept["b",] = 2.0
    assert metrics.value("things", kind="b") == 2.0


def test_components_in_one_registry_are_scraped_under_their_own_names() -> None:
    metrics = Metrics("first")
    metrics.counter("seen_total", "Things seen.").inc()
    metrics.beside("second").counter("seen_total", "Things seen.").inc(2)
    # a restarted component continues counting
    metrics.beside("second").counter("seen_total", "Things seen.").inc(2)
    told = metrics.exposition()[1].decode()
    assert "rota_first_seen_total 1.0" in told
    assert "rota_second_seen_total 4.0" in told
