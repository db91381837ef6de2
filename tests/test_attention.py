"""Attention written out by models of `transformers` runs fused, forward and training, as near to float64 as eager."""

import copy

import pytest
import torch
import transformers
import triptych

from tools.bench import accuracy

TEXT = {"attn_implementation": "eager", "vocab_size": 200}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TOKENS = 48


def _bert():
    config = transformers.BertConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, **NO_DROPOUT, **TEXT
    )
    return transformers.BertModel(config)


def _gpt2():
    drops = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, use_cache=False, **drops, **TEXT)
    return transformers.GPT2Model(config)


def _vit():
    config = transformers.ViTConfig(
        image_size=96,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        attn_implementation="eager",
        **NO_DROPOUT,
    )
    return transformers.ViTModel(config)


def _t5():
    config = transformers.T5Config(d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, dropout_rate=0.0, **TEXT)
    return transformers.T5EncoderModel(config)


MODELS = {"bert": _bert, "gpt2": _gpt2, "vit": _vit, "t5": _t5}


def batch(name):
    if name == "vit":
        return {"pixel_values": torch.randn(2, 3, 96, 96)}
    mask = torch.ones(2, TOKENS, dtype=torch.long)
    mask[0, 40:] = 0
    return {"input_ids": torch.randint(0, 200, (2, TOKENS)), "attention_mask": mask}


def step(call, module, inputs, autocast):
    """Output, and gradients of all parameters, by name."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        out = call(**inputs).last_hidden_state
    out.double().square().mean().backward()
    grads = {f"grad.{name}": p.grad for name, p in module.named_parameters() if p.grad is not None}
    module.zero_grad()
    return {"output": out.detach(), **grads}


@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_written_out_attention_is_fused(name, autocast):
    torch.manual_seed(0)
    model, inputs = MODELS[name]().train(), batch(name)
    exact = copy.deepcopy(model).double()
    exact_inputs = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    truth = step(exact, exact, exact_inputs, False)
    eager = step(model, model, inputs, autocast)
    compiled = triptych.compile(model, fullgraph=True)
    ours = step(compiled, model, inputs, autocast)
    report = triptych.report(compiled)
    assert report.patterns == {"fuse_attention": 2} and "rewritten by fuse_attention: 2" in str(report)
    epsilon = torch.finfo(torch.bfloat16 if autocast else torch.float32).eps
    worst = accuracy.worst_error(ours, eager, truth, epsilon=epsilon)
    assert worst.ratio <= 2.0, worst
