"""The models that are measured: real architectures of `transformers` with random weights, small enough for two cores.

Every row of `WORKLOADS` is four layers deep and 192 to 256 wide. Dropout is off, so that eager and compiled runs can be
compared number by number; random numbers are tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

TEXT_BATCH, TOKENS = 4, 128
IMAGE_BATCH, PIXELS = 8, 112
VOCABULARY = 8192
CLASSES = 100
PROBLEM = (
    "single_label_classification"  # else the first call finds it out and notes it, a change that needs a recompile
)

Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Workload:
    """One model with its inputs.

    build: makes the module (float32, random weights, seeded by the caller).
    batch: (batch size, training) -> keyword arguments of the module's forward.
    loss: the scalar to differentiate, from the module's output.
    """

    name: str
    build: Callable[[], torch.nn.Module]
    batch: Callable[[int, bool], Batch]
    batch_size: int
    loss: Callable[[Any], torch.Tensor] = lambda output: output.loss


def _tokens(size: int, training: bool) -> Batch:
    ids = torch.randint(0, VOCABULARY, (size, TOKENS))
    return {"input_ids": ids, "labels": ids} if training else {"input_ids": ids}


def _masked_tokens(size: int, training: bool) -> Batch:
    batch = _tokens(size, training)
    return batch | {"attention_mask": torch.ones_like(batch["input_ids"])}


def _encoder_tokens(size: int, training: bool) -> Batch:
    return {"input_ids": torch.randint(0, VOCABULARY, (size, TOKENS))}


def _images(size: int, training: bool) -> Batch:
    batch = {"pixel_values": torch.randn(size, 3, PIXELS, PIXELS)}
    return batch | {"labels": torch.randint(0, CLASSES, (size,))} if training else batch


def _bert() -> torch.nn.Module:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.BertForMaskedLM(config)


def _gpt2() -> torch.nn.Module:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=256,
        n_embd=256,
        n_layer=4,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config)


def _llama() -> torch.nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config)


def _t5_encoder() -> torch.nn.Module:
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=256,
        d_kv=64,
        d_ff=1024,
        num_layers=4,
        num_heads=4,
        dropout_rate=0.0,
        use_cache=False,
    )
    return transformers.T5EncoderModel(config)


def _resnet() -> torch.nn.Module:
    config = transformers.ResNetConfig(
        embedding_size=48,
        hidden_sizes=[48, 96, 192, 256],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        num_labels=CLASSES,
        problem_type=PROBLEM,
    )
    return transformers.ResNetForImageClassification(config)


def _vit() -> torch.nn.Module:
    config = transformers.ViTConfig(
        image_size=PIXELS,
        patch_size=16,
        hidden_size=192,
        num_hidden_layers=4,
        num_attention_heads=3,
        intermediate_size=768,
        num_labels=CLASSES,
        problem_type=PROBLEM,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.ViTForImageClassification(config)


WORKLOADS: dict[str, Workload] = {
    row.name: row
    for row in (
        Workload("bert", _bert, _masked_tokens, TEXT_BATCH),
        Workload("gpt2", _gpt2, _tokens, TEXT_BATCH),
        Workload("llama", _llama, _tokens, TEXT_BATCH),
        Workload("t5", _t5_encoder, _encoder_tokens, TEXT_BATCH, lambda out: out.last_hidden_state.square().mean()),
        Workload("resnet", _resnet, _images, IMAGE_BATCH),
        Workload("vit", _vit, _images, IMAGE_BATCH),
    )
}


def make(name: str, *, training: bool, seed: int = 0, batch_size: int | None = None) -> tuple[torch.nn.Module, Batch]:
    """The module (in training or evaluation mode) and one batch, the same for the same seed."""
    workload = WORKLOADS[name]
    torch.manual_seed(seed)
    model = workload.build().train(training)
    return model, workload.batch(batch_size or workload.batch_size, training)


def tensors_of(output: Any) -> dict[str, torch.Tensor]:
    """The tensors of a model output by name (nested names are joined with a dot), in a fixed order."""
    found: dict[str, torch.Tensor] = {}

    def visit(name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            found[name] = value
        elif isinstance(value, dict):
            for key, item in value.items():
                visit(f"{name}.{key}".lstrip("."), item)
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                visit(f"{name}.{index}".lstrip("."), item)

    visit("", output)
    return found
