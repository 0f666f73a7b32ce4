"""The Structs of all kinds: where they come from and what is repaired on the way."""

import subprocess
import sys
from datetime import UTC, datetime

import msgspec
import pytest

from rota.api import models
from rota.api.models import _schema


def test_only_this_package_is_needed_and_only_what_is_used_is_loaded() -> None:
    program = (
        "import sys; from rota.api import scheme, decoding; known = scheme.builtin(); "
        "loaded = lambda: sorted(m for m in sys.modules if 'lightkube' in m or m.startswith('rota.api.models.')); "
        "before = loaded(); decoding.typed(b'{}', known.find('leases')); print(*before, '|', *loaded())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, _, after = done.stdout.replace("rota.api.models.", "").strip().partition(" | ")
    assert before == "_schema"
    assert after == "_schema coordination_v1 meta_v1 runtime"


def test_absent_required_fields_have_their_zero_value() -> None:
    core = models.load("core_v1")
    container = msgspec.json.decode(b"{}", type=core.Container)
    assert container.name == ""
    assert msgspec.json.decode(b"{}", type=core.PodSpec).containers == []
    assert _schema.required_fields(core.Container) == {"name"}


def test_quantities_may_be_numbers_and_maps_know_their_values() -> None:
    core = models.load("core_v1")
    needs = msgspec.json.decode(b'{"requests":{"cpu":1,"memory":"1Gi"}}', type=core.ResourceRequirements)
    assert needs.requests == {"cpu": 1, "memory": "1Gi"}
    assert msgspec.json.decode(b'{"sizeLimit":1.5}', type=core.EmptyDirVolumeSource).sizeLimit == 1.5
    with pytest.raises(msgspec.ValidationError, match="labels"):
        msgspec.json.decode(b'{"labels":{"a":1}}', type=models.load("meta_v1").ObjectMeta)


def test_times_are_read_as_points_in_time() -> None:
    spec = msgspec.json.decode(b'{"renewTime":"2024-01-01T00:00:00.5Z"}', type=models.load("coordination_v1").LeaseSpec)
    assert spec.renewTime == datetime(2024, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)


def test_names_that_python_cannot_have_keep_their_form_on_the_wire() -> None:
    props = msgspec.json.decode(
        b'{"$ref":"a","not":{"type":"x"}}', type=models.load("apiextensions_v1").JSONSchemaProps
    )
    assert (props.d_ref, props.not_.type) == ("a", "x")
    assert msgspec.json.encode(props) == b'{"$ref":"a","not":{"type":"x"}}'
