"""The models that the GPU scripts measure, with random weights, and the sizes of their batches.

A row's `build` makes the module on the current default device, `inputs` its keyword arguments on a device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Row:
    """One model: its module, its inputs, and the scalar to differentiate, from the module's output."""

    build: Callable[[], torch.nn.Module]
    inputs: Callable[[str], Inputs]
    loss: Callable[[Any], torch.Tensor]
    labels: str = ""  # in inference: the argument that takes what training calls labels, if any


def _image_model(name: str) -> torch.nn.Module:
    import timm

    return timm.create_model(name, pretrained=False)


def _images(batch: int, device: str) -> Inputs:
    return {"x": torch.randn(batch, 3, 224, 224, device=device)}


def _tokens(batch: int, length: int, vocabulary: int, device: str) -> Inputs:
    ids = torch.randint(0, vocabulary, (batch, length), device=device)
    return {"input_ids": ids, "labels": ids}


def _bert() -> torch.nn.Module:
    import transformers

    config = transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return transformers.BertForMaskedLM(config)


def _gpt2() -> torch.nn.Module:
    import transformers

    config = transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    return transformers.GPT2LMHeadModel(config)


def _llama() -> torch.nn.Module:
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=12,
        num_attention_heads=16,
        num_key_value_heads=16,
        vocab_size=32000,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config)


def _t5() -> torch.nn.Module:
    import transformers

    config = transformers.T5Config(dropout_rate=0.0, use_cache=False, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


def _image_loss(out: Any) -> torch.Tensor:
    return out.float().square().mean()


def _language_loss(out: Any) -> torch.Tensor:
    return out.loss if getattr(out, "loss", None) is not None else out.logits.float().square().mean()


def _image_row(name: str, batch: int) -> Row:
    return Row(partial(_image_model, name), partial(_images, batch), _image_loss)


MODELS: dict[str, Row] = {
    "resnet50": _image_row("resnet50", 64),
    "vit": _image_row("vit_base_patch16_224", 64),
    "convnext": _image_row("convnext_tiny", 64),
    "mobilenet": _image_row("mobilenetv3_large_100", 128),
    "bert": Row(_bert, partial(_tokens, 16, 512, 30522), _language_loss),
    "gpt2": Row(_gpt2, partial(_tokens, 8, 512, 50257), _language_loss),
    "llama": Row(_llama, partial(_tokens, 4, 1024, 32000), _language_loss),
    "t5": Row(_t5, partial(_tokens, 8, 512, 32128), _language_loss, labels="decoder_input_ids"),
}


def _tiny_bert() -> torch.nn.Module:
    import transformers

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=512, **sizes, **dropout))


def _perceptron() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))


TINY: dict[str, Row] = {
    "tiny-bert": Row(_tiny_bert, partial(_tokens, 2, 16, 512), _language_loss),
    "perceptron": Row(_perceptron, lambda device: {"input": torch.randn(4, 32, device=device)}, _image_loss),
}
"""Small enough to try the scripts on a CPU."""


def row_named(name: str) -> Row:
    """The model of a name, of either table."""
    return MODELS.get(name) or TINY[name]


def inputs_for(row: Row, device: str, training: bool) -> Inputs:
    """The keyword arguments of a step: without labels where nothing is learned."""
    inputs = row.inputs(device)
    if not training and "labels" in inputs:
        labels = inputs.pop("labels")
        if row.labels:
            inputs[row.labels] = labels
    return inputs
