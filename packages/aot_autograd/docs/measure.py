"""Measures tracing, partitioning and calls: `python packages/aot_autograd/docs/measure.py` (needs transformers)."""

import os
import time

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers as tf
from triptych_aot_autograd import aot_backend, default_partition, min_cut_partition, trace_joint

IDS = torch.randint(0, 1000, (4, 128))
PIXELS = torch.randn(8, 3, 112, 112)
LABELS = torch.randint(0, 10, (8,))
BODY = dict(num_hidden_layers=4, hidden_size=192, num_attention_heads=4, intermediate_size=768)
TEXT = dict(vocab_size=1000, bos_token_id=0, eos_token_id=0)


def models():
    """Name -> (module, keyword arguments)."""
    gpt2 = tf.GPT2Config(n_layer=4, n_embd=192, n_head=4, n_positions=128, **TEXT)
    yield "GPT-2", tf.GPT2LMHeadModel(gpt2), dict(input_ids=IDS, labels=IDS, use_cache=False)
    yield "BERT", tf.BertForMaskedLM(tf.BertConfig(vocab_size=1000, **BODY)), dict(input_ids=IDS, labels=IDS)
    llama = tf.LlamaConfig(num_key_value_heads=2, **BODY, **TEXT)
    yield "Llama", tf.LlamaForCausalLM(llama), dict(input_ids=IDS, labels=IDS, use_cache=False)
    vit = tf.ViTConfig(image_size=112, patch_size=16, num_labels=10, **BODY)
    yield "ViT", tf.ViTForImageClassification(vit), dict(pixel_values=PIXELS, labels=LABELS)
    sizes = dict(embedding_size=32, hidden_sizes=[64, 64, 128, 128], depths=[1, 1, 1, 1], layer_type="basic")
    resnet = tf.ResNetForImageClassification(tf.ResNetConfig(num_labels=10, **sizes))
    yield "ResNet", resnet, dict(pixel_values=PIXELS, labels=LABELS)


def best(fn, repeats=3):
    """The least CPU time of some runs, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        result = fn()
        times.append(time.thread_time() - start)
    return min(times), result


def measure_models():
    """Trace and partition times."""
    print(f"{'model':8} {'ops':>5} {'trace s':>8} {'us/op':>6} {'min-cut s':>9} {'saved MB: eager':>15} {'min-cut':>8}")
    for name, module, kwargs in models():
        trace_seconds, joint = best(lambda m=module, k=kwargs: trace_joint(m, kwargs=k))
        cut_seconds, cut = best(lambda j=joint: j.partition(min_cut_partition))
        eager = joint.partition(default_partition)
        per_op = trace_seconds / joint.traced_ops * 1e6
        row = f"{name:8} {joint.traced_ops:5} {trace_seconds:8.3f} {per_op:6.0f} {cut_seconds:9.3f}"
        print(f"{row} {eager.saved_bytes() / 1e6:15.1f} {cut.saved_bytes() / 1e6:8.1f}")


def per_call(fn, count=20000):
    """Microseconds a call, the best of some rounds."""
    return best(lambda: [fn() for _ in range(count)], 5)[0] / count * 1e6


def measure_calls():
    """`x + 1`: what the run time adds to a compiled function."""
    add = torch.ops.aten.add.Tensor
    gm = torch.fx.symbolic_trace(lambda x: (x + 1,))
    for grad in (False, True):
        measure_call(gm, torch.ones(4, requires_grad=grad), lambda g, _: lambda x: (add(x, 1),))


def measure_call(gm, x, compiler):
    """One line of the table."""
    fn = aot_backend(compiler, lambda g, _: lambda t: (t,))(gm, [x])
    eager, compiled = per_call(lambda: x + 1), per_call(lambda: fn(x))
    print(f"x + 1, requires_grad={x.requires_grad}: eager {eager:.2f} us, compiled {compiled:.2f} us")


if __name__ == "__main__":
    measure_models()
    measure_calls()
