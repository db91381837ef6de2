"""The benchmark's own arithmetic."""

import math

import pytest
import torch

from tools.bench import accuracy, models, report


def row(model, compiler, cold, step, eager, **more):
    spec = {"model": model, "training": False, "precision": "float32", "compiler": compiler}
    counts = {"graphs": 1, "breaks": 0, "kernels": 5, "fallbacks": None}
    errors = {"error": 1e-7, "eager_error": 1e-7, "error_ratio": 1.0}
    return {
        "spec": spec,
        "cold_s": cold,
        "step_s": step,
        "eager_s": eager,
        "failure": "",
        "counts": counts,
        **errors,
    } | more


def test_against_peer_takes_eager_as_the_clock():
    rows = [row("bert", "peer", 40.0, 0.08, 0.1), row("bert", "triptych", 8.0, 0.14, 0.2)]
    cold, step = report.against_peer(rows)["bert", "infer", "float32"]
    assert cold == pytest.approx(0.2) and step == pytest.approx(0.875)
    assert "cold 0.200, step 0.875" in report.summary(rows)


def test_failures_are_shown_and_not_compared():
    rows = [row("bert", "peer", 40.0, 0.08, 0.1), row("bert", "triptych", 0, 0, 0, failure="ValueError: no")]
    assert report.against_peer(rows) == {} and report.summary(rows) == ""
    assert "ValueError: no" in report.markdown(rows)


def test_geomean():
    assert report.geomean([1.0, 4.0]) == pytest.approx(2.0)
    assert math.isnan(report.geomean([]))


def test_worst_error_finds_the_bad_tensor():
    truth = {"output.a": torch.ones(100).double(), "grad.b": torch.ones(100).double()}
    eager = {name: (value + 1e-6).float() for name, value in truth.items()}
    good = accuracy.worst_error(eager, eager, truth)
    assert good.ratio == pytest.approx(1.0, rel=1e-3)
    wrong = accuracy.worst_error(eager | {"grad.b": (truth["grad.b"] + 1e-5).float()}, eager, truth)
    assert wrong.tensor == "grad.b" and wrong.ratio == pytest.approx(10.0, rel=0.1)


def test_worst_error_sees_nan_and_differing_tensors():
    truth = {"output.a": torch.ones(3).double(), "output.b": torch.ones(3).double()}
    eager = {"output.a": torch.ones(3), "output.b": torch.ones(3)}
    assert not accuracy.worst_error(eager | {"output.a": torch.full((3,), math.nan)}, eager, truth).ratio <= 2
    with pytest.raises(ValueError, match="different tensors"):
        accuracy.worst_error({}, eager, truth)
    with pytest.raises(ValueError, match=r"output\.a"):
        accuracy.worst_error(eager | {"output.a": torch.ones(2)}, eager, truth)


@pytest.mark.parametrize("name", ["llama", "resnet"])
def test_the_float64_run_has_no_float32_step(name):
    tensors = accuracy.float64_tensors(name, training=True, batch_size=2)
    kinds = {key: value.dtype for key, value in tensors.items() if value.is_floating_point()}
    assert set(kinds.values()) == {torch.float64}, kinds


def test_models_are_the_same_for_the_same_seed():
    one, two = (models.make("vit", training=True, batch_size=2) for _ in range(2))
    torch.testing.assert_close(dict(one[0].named_parameters()), dict(two[0].named_parameters()), rtol=0, atol=0)
    torch.testing.assert_close(one[1], two[1], rtol=0, atol=0)
