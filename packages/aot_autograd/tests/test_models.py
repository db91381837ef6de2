"""Models of transformers, traced directly: outputs, every gradient, buffers and draws against eager."""

import os

import pytest
import torch
from aot_testing import keep_graph
from torch.utils._pytree import tree_leaves
from triptych_aot_autograd import aot_module, default_partition, min_cut_partition, trace_joint

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
tf = pytest.importorskip("transformers")

BODY = dict(num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=64)
TEXT = dict(vocab_size=97, bos_token_id=0, eos_token_id=0)


def text(config, cls, **extra):
    def make():
        ids = torch.randint(0, 97, (2, 16))
        return cls(config()), dict(input_ids=ids, labels=ids, **extra)

    return make


def encoder():
    config = tf.T5Config(num_layers=2, d_model=32, num_heads=4, d_kv=8, d_ff=64, vocab_size=97)
    return tf.T5EncoderModel(config), dict(input_ids=torch.randint(0, 97, (2, 16)))


def resnet():
    sizes = dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=5)
    images = dict(pixel_values=torch.randn(4, 3, 32, 32), labels=torch.randint(0, 5, (4,)))
    return tf.ResNetForImageClassification(tf.ResNetConfig(**sizes)), images


def vit():
    config = tf.ViTConfig(image_size=32, patch_size=8, num_labels=5, **BODY)
    images = dict(pixel_values=torch.randn(4, 3, 32, 32), labels=torch.randint(0, 5, (4,)))
    return tf.ViTForImageClassification(config), images


MODELS = {
    "GPT-2": text(
        lambda: tf.GPT2Config(n_layer=2, n_embd=32, n_head=4, n_positions=32, **TEXT),
        tf.GPT2LMHeadModel,
        use_cache=False,
    ),
    "BERT": text(lambda: tf.BertConfig(vocab_size=97, **BODY), tf.BertForMaskedLM),
    "Llama": text(lambda: tf.LlamaConfig(num_key_value_heads=2, **BODY, **TEXT), tf.LlamaForCausalLM, use_cache=False),
    "T5 encoder": encoder,
    "ResNet": resnet,
    "ViT": vit,
}


def train_step(module, kwargs):
    torch.manual_seed(1)
    outputs = [t for t in tree_leaves(module(**kwargs)) if isinstance(t, torch.Tensor)]
    state = torch.get_rng_state()
    sum(o.float().sin().sum() for o in outputs if o.requires_grad).backward()
    return outputs, state


@pytest.mark.parametrize("name", MODELS)
def test_training_step(name):
    torch.manual_seed(0)
    eager, kwargs = MODELS[name]()
    torch.manual_seed(0)
    other, _ = MODELS[name]()
    compiled = aot_module(other, keep_graph)
    expected, eager_state = train_step(eager.train(), kwargs)
    found, state = train_step(compiled.train(), kwargs)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(state, eager_state)
    ours = dict(other.named_parameters())
    for key, parameter in eager.named_parameters():
        assert (parameter.grad is None) == (ours[key].grad is None)
        if parameter.grad is not None:
            torch.testing.assert_close(ours[key].grad, parameter.grad, atol=1e-5, rtol=1e-5, msg=key)
    for (key, a), (_, b) in zip(eager.named_buffers(), other.named_buffers()):
        torch.testing.assert_close(b, a, msg=key)


@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_min_cut_saves_less_than_eager(name):
    module, kwargs = MODELS[name]()
    joint = trace_joint(module.train(), kwargs=kwargs)
    assert joint.partition(min_cut_partition).saved_bytes() < 0.9 * joint.partition(default_partition).saved_bytes()
