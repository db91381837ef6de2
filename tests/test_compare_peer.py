"""The comparison of models on a GPU: what a run measures, what the next one goes on with, and what is concluded."""

import argparse
import json

import pytest

from tools.gpu import common, compare_peer, models
from tools.gpu.zoo import MODELS


def row(who, model="bert", mode="train", run="a", **more):
    found = {"step_ms": 10.0, "eager_step_ms": 20.0, "cold_s": 5.0, "peak_gb": 1.0, "eager_peak_gb": 2.0}
    return {"model": model, "mode": mode, "who": who, "run": run, "error_ratio": 1.0} | found | more


def given(tmp_path, **more):
    options = {"models": "bert,gpt2", "modes": "infer,train", "shard": "", "steps": 3, "device": "cpu"}
    return argparse.Namespace(**options | {"out": str(tmp_path)} | more)


class Measured:
    """Stands for the processes that measure."""

    def __init__(self, monkeypatch, clock=None, each=0.0, **failing):
        self.calls, self.clock, self.each, self.failing = [], clock, each, failing
        monkeypatch.setattr(models, "run", self)

    def __call__(self, model, mode, who, steps, seconds, profiled=False, device="cuda"):
        self.calls.append((model, mode, who))
        if self.clock is not None:
            self.clock.end -= self.each
        made = row(who, model, mode)
        del made["run"]
        return {"model": model, "mode": mode, "who": who, "failed": self.failing[who]} if who in self.failing else made


def test_pairs_are_measured_together_and_kept(tmp_path, monkeypatch):
    measured, rows = Measured(monkeypatch), []
    assert compare_peer.measure(given(tmp_path), rows, common.Clock(10**6)) == []
    assert len(measured.calls) == 8 and {who for *_, who in measured.calls[::2]} == {"triptych"}
    assert all(a[:2] == b[:2] for a, b in zip(measured.calls[::2], measured.calls[1::2], strict=True))
    kept = json.loads((tmp_path / "compare.json").read_text())
    assert kept["rows"] == rows and len(compare_peer.complete(rows)) == 4
    compare_peer.measure(given(tmp_path), rows, common.Clock(10**6))
    assert len(measured.calls) == 8  # nothing is left


def test_the_next_run_goes_on(tmp_path, monkeypatch):
    """A run stops while a pair still fits; half a pair is measured again as a whole."""
    clock = common.Clock(200)
    first = Measured(monkeypatch, clock, each=40)
    left = compare_peer.measure(given(tmp_path), [], clock)
    assert len(first.calls) == 4 and len(left) == 2 and clock.left > 0
    rows = compare_peer.merged([str(tmp_path / "compare.json"), str(tmp_path / "none.json")])
    del rows[-1]
    again = Measured(monkeypatch)
    assert compare_peer.measure(given(tmp_path), rows, common.Clock(10**6)) == []
    assert len(again.calls) == 6 and len(compare_peer.complete(rows)) == 4


def test_what_ran_out_of_time_is_no_result_but_a_failure_is(tmp_path, monkeypatch):
    for reason, pairs in (("over 30 s", 0), ("ValueError: no", 4)):
        Measured(monkeypatch, peer=reason)
        rows = []
        compare_peer.measure(given(tmp_path), rows, common.Clock(10**6))
        assert len(compare_peer.complete(rows)) == pairs
    assert compare_peer.verdicts(compare_peer.complete(rows))[0].startswith("0 pairs; failed: ")


def test_shards_are_all_pairs_once():
    everything = compare_peer.pairs_of(MODELS, ["infer", "train"])
    shards = [compare_peer.pairs_of(MODELS, ["infer", "train"], f"{k}/3") for k in (1, 2, 3)]
    assert sorted(pair for shard in shards for pair in shard) == sorted(everything) and len(everything) == 16
    times = [sum(map(compare_peer.expected, shard)) for shard in shards]
    assert max(times) < 1.2 * min(times)


def test_the_latest_run_of_a_pair_counts():
    rows = [row("triptych"), row("peer"), row("triptych", run="b", step_ms=5.0), row("peer", run="b")]
    assert compare_peer.complete(rows)["bert", "train"][0]["step_ms"] == 5.0
    assert compare_peer.complete(rows[:3])["bert", "train"][0]["step_ms"] == 10.0
    assert compare_peer.complete([rows[0], rows[3]]) == {}


def test_verdicts_name_what_misses_the_mark():
    good = [row("triptych", step_ms=8.0, cold_s=1.0), row("peer")]
    bad = [
        row("triptych", "gpt2", "infer", step_ms=12.0, cold_s=4.0, peak_gb=1.5, error_ratio=3.0),
        row("peer", "gpt2", "infer"),
    ]
    lines = compare_peer.verdicts(compare_peer.complete([*good, *bad]))
    assert lines[0] == "2 pairs; failed: none"
    assert "infer: geomean 0.833 of the peer's speed, 1.667 of eager's" in lines
    assert any(line.startswith("geomean of all 1.021") for line in lines)
    for start in ("behind by over 5 %", "cold 0.400 of the peer's", "memory over", "errors over twice"):
        (line,) = [line for line in lines if line.startswith(start)]
        assert line.endswith(": gpt2 infer"), line
    assert not any("gpt2" in line for line in compare_peer.verdicts(compare_peer.complete(good)))


def test_the_tiny_models_are_measured_on_a_cpu():
    found = models.measure_one("perceptron", "train", "triptych", steps=2, device="cpu")
    assert found["graphs"] == 1 and found["breaks"] == 0 and found["kernels"] > 0
    assert found["step_ms"] > 0 and found["cold_s"] > 0 and found["error_ratio"] == pytest.approx(1.0, abs=1.0)
