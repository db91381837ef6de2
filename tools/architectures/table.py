"""The architectures, one row each: a model class of `transformers`, a tiny configuration (random weights), its inputs.

Dropout, stochastic depth and time masking are off where a configuration has them, so that runs can be compared number
by number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

VOCABULARY, BATCH, TOKENS, PIXELS = 128, 2, 16, 32


@dataclass(frozen=True)
class Architecture:
    """One row.

    model, config: names in `transformers`. settings: the configuration's keywords. inputs: keys of `INPUTS`.
    """

    name: str
    family: str
    model: str
    config: str
    settings: dict[str, Any]
    inputs: tuple[str, ...] = ("input_ids",)

    def build(self) -> torch.nn.Module:
        """The module, seeded, float32, on the CPU."""
        torch.manual_seed(0)
        config = getattr(transformers, self.config)(**self.settings)
        model = getattr(transformers, self.model)(config)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        return model

    def batch(self) -> dict[str, torch.Tensor]:
        """Keyword arguments of the module's forward."""
        torch.manual_seed(1)
        return {name: INPUTS[name]() for name in self.inputs}


def _ids() -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, TOKENS))


INPUTS: dict[str, Callable[[], torch.Tensor]] = {
    "input_ids": _ids,
    "decoder_input_ids": _ids,
    "labels": _ids,
    "attention_mask": lambda: torch.ones(BATCH, TOKENS, dtype=torch.int64),
    "pixel_values": lambda: torch.randn(BATCH, 3, PIXELS, PIXELS),
    "input_values": lambda: torch.randn(BATCH, 1000),
    "input_features": lambda: torch.randn(BATCH, 16, 64),
    "bbox": lambda: torch.zeros(BATCH, TOKENS, 4, dtype=torch.int64),
    "past_values": lambda: torch.randn(BATCH, 32, 3),
}
LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = LAYERS | {"vocab_size": VOCABULARY, "max_position_embeddings": 64, "pad_token_id": 0}
GROUPED = TEXT | {"num_key_value_heads": 2}
IMAGE = LAYERS | {"image_size": PIXELS, "patch_size": 8}
SEQ2SEQ = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
SPEECH = LAYERS | {
    "vocab_size": VOCABULARY, "conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3),
    "mask_time_prob": 0.0, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4,
    "layerdrop": 0.0,
}  # fmt: skip
BOTH = ("input_ids", "decoder_input_ids")
LEARNS = ("input_ids", "labels")
SEES = ("pixel_values",)


def _row(name: str, family: str, stem: str, head: str, settings: dict[str, Any], *inputs: str) -> Architecture:
    return Architecture(name, family, stem + head, stem + "Config", settings, inputs or ("input_ids",))


_ENCODERS = (
    _row("bert", "encoder", "Bert", "ForMaskedLM", TEXT, "input_ids", "attention_mask", "labels"),
    _row("roberta", "encoder", "Roberta", "Model", TEXT),
    _row("distilbert", "encoder", "DistilBert", "Model",
         {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
    _row("albert", "encoder", "Albert", "Model", TEXT | {"embedding_size": 16}),
    _row("electra", "encoder", "Electra", "Model", TEXT | {"embedding_size": 16}),
    _row("deberta", "encoder", "Deberta", "Model",
         TEXT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    _row("deberta-v2", "encoder", "DebertaV2", "Model",
         TEXT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8}),
    _row("mpnet", "encoder", "MPNet", "Model", TEXT),
    _row("roformer", "encoder", "RoFormer", "Model", TEXT),
    _row("modernbert", "encoder", "ModernBert", "Model",
         TEXT | {"global_attn_every_n_layers": 2, "local_attention": 8}),
    _row("squeezebert", "encoder", "SqueezeBert", "Model", TEXT | {"embedding_size": 32}),
    _row("funnel", "encoder", "Funnel", "Model",
         {"vocab_size": VOCABULARY, "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64, "block_sizes": [1, 1]}),
    _row("fnet", "encoder", "FNet", "Model", TEXT),
    _row("longformer", "encoder", "Longformer", "Model", TEXT | {"attention_window": 8}),
    _row("bigbird", "encoder", "BigBird", "Model", TEXT | {"attention_type": "original_full"}),
    _row("canine", "encoder", "Canine", "Model", TEXT | {"local_transformer_stride": 8, "downsampling_rate": 2}),
    _row("xlnet", "encoder", "XLNet", "Model",
         {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}),
    _row("layoutlm", "multimodal", "LayoutLM", "Model", TEXT, "input_ids", "bbox"),
)  # fmt: skip
_DECODERS = (
    _row("gpt2", "decoder", "GPT2", "LMHeadModel",
         {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}, *LEARNS),
    _row("gpt-neo", "decoder", "GPTNeo", "ForCausalLM",
         {"vocab_size": VOCABULARY, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 8,
          "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64}),
    _row("gpt-neox", "decoder", "GPTNeoX", "ForCausalLM", TEXT),
    _row("gptj", "decoder", "GPTJ", "ForCausalLM",
         {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 64}),
    _row("opt", "decoder", "OPT", "ForCausalLM",
         {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64,
          "max_position_embeddings": 64, "word_embed_proj_dim": 32}),
    _row("bloom", "decoder", "Bloom", "ForCausalLM",
         {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    _row("falcon", "decoder", "Falcon", "ForCausalLM",
         {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}),
    _row("mpt", "decoder", "Mpt", "ForCausalLM",
         {"vocab_size": VOCABULARY, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}),
    _row("llama", "decoder", "Llama", "ForCausalLM", GROUPED, *LEARNS),
    _row("mistral", "decoder", "Mistral", "ForCausalLM", GROUPED | {"sliding_window": 8}, *LEARNS),
    _row("qwen2", "decoder", "Qwen2", "ForCausalLM", GROUPED),
    _row("qwen3", "decoder", "Qwen3", "ForCausalLM", GROUPED | {"head_dim": 8}),
    _row("gemma", "decoder", "Gemma", "ForCausalLM", GROUPED | {"head_dim": 8}),
    _row("gemma2", "decoder", "Gemma2", "ForCausalLM", GROUPED | {"head_dim": 8, "sliding_window": 8}),
    _row("phi", "decoder", "Phi", "ForCausalLM", TEXT),
    _row("phi3", "decoder", "Phi3", "ForCausalLM", GROUPED),
    _row("stablelm", "decoder", "StableLm", "ForCausalLM", GROUPED),
    _row("olmo2", "decoder", "Olmo2", "ForCausalLM", GROUPED),
    _row("cohere", "decoder", "Cohere", "ForCausalLM", GROUPED),
    _row("granite", "decoder", "Granite", "ForCausalLM", GROUPED),
    _row("starcoder2", "decoder", "Starcoder2", "ForCausalLM", GROUPED),
    _row("biogpt", "decoder", "BioGpt", "ForCausalLM", TEXT),
    _row("xglm", "decoder", "XGLM", "ForCausalLM",
         {"vocab_size": VOCABULARY, "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64}),
    _row("ctrl", "decoder", "CTRL", "LMHeadModel",
         {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 64, "n_positions": 64}),
)  # fmt: skip
_MIXTURES = (
    _row("mixtral", "mixture of experts", "Mixtral", "ForCausalLM", GROUPED | {"num_local_experts": 4}),
    _row("qwen2-moe", "mixture of experts", "Qwen2Moe", "ForCausalLM",
         GROUPED | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                    "shared_expert_intermediate_size": 32}),
    _row("switch", "mixture of experts", "SwitchTransformers", "ForConditionalGeneration",
         {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
          "num_experts": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1,
          "decoder_start_token_id": 0}, *BOTH),
)  # fmt: skip
_RECURRENT = (
    _row("mamba", "state space", "Mamba", "ForCausalLM",
         {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
    _row("mamba2", "state space", "Mamba2", "ForCausalLM",
         {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4, "num_heads": 8,
          "head_dim": 8, "n_groups": 1, "chunk_size": 8}),
    _row("rwkv", "recurrent", "Rwkv", "Model",
         {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32}),
    _row("recurrent-gemma", "recurrent", "RecurrentGemma", "ForCausalLM",
         GROUPED | {"head_dim": 8, "lru_width": 32, "attention_window_size": 8, "num_hidden_layers": 3}),
)  # fmt: skip
_PAIRS = (
    _row("t5", "encoder-decoder", "T5", "ForConditionalGeneration",
         {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
          "decoder_start_token_id": 0}, *LEARNS),
    _row("bart", "encoder-decoder", "Bart", "Model", SEQ2SEQ, *BOTH),
    _row("mbart", "encoder-decoder", "MBart", "Model", SEQ2SEQ, *BOTH),
    _row("pegasus", "encoder-decoder", "Pegasus", "Model", SEQ2SEQ, *BOTH),
    _row("marian", "encoder-decoder", "Marian", "Model", SEQ2SEQ, *BOTH),
    _row("m2m100", "encoder-decoder", "M2M100", "Model", SEQ2SEQ, *BOTH),
    _row("led", "encoder-decoder", "LED", "Model",
         SEQ2SEQ | {"attention_window": 8, "max_encoder_position_embeddings": 64,
                    "max_decoder_position_embeddings": 64}, *BOTH),
    _row("prophetnet", "encoder-decoder", "ProphetNet", "Model",
         {"vocab_size": VOCABULARY, "hidden_size": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
          "num_encoder_layers": 2, "num_decoder_layers": 2, "num_encoder_attention_heads": 4,
          "num_decoder_attention_heads": 4, "max_position_embeddings": 64}, *BOTH),
)  # fmt: skip
_VISION = (
    _row("vit", "vision", "ViT", "ForImageClassification", IMAGE, *SEES),
    _row("deit", "vision", "DeiT", "Model", IMAGE, *SEES),
    _row("beit", "vision", "Beit", "Model", IMAGE, *SEES),
    _row("dinov2", "vision", "Dinov2", "Model", IMAGE, *SEES),
    _row("yolos", "vision", "Yolos", "Model", IMAGE | {"image_size": [PIXELS, PIXELS]}, *SEES),
    _row("resnet", "vision", "ResNet", "Model",
         {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}, *SEES),
    _row("regnet", "vision", "RegNet", "Model",
         {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 8}, *SEES),
    _row("swin", "vision", "Swin", "Model",
         {"image_size": PIXELS, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4],
          "window_size": 4, "drop_path_rate": 0.0}, *SEES),
    _row("swinv2", "vision", "Swinv2", "Model",
         {"image_size": PIXELS, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4],
          "window_size": 4, "drop_path_rate": 0.0}, *SEES),
    _row("convnext", "vision", "ConvNext", "Model",
         {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}, *SEES),
    _row("mobilenet-v2", "vision", "MobileNetV2", "Model", {"depth_multiplier": 0.35}, *SEES),
    _row("mobilevit", "vision", "MobileViT", "Model",
         {"image_size": 64, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 8, 16, 16, 16, 32],
          "num_attention_heads": 4}, *SEES),
    _row("poolformer", "vision", "PoolFormer", "Model",
         {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "drop_path_rate": 0.0}, *SEES),
    _row("pvt", "vision", "Pvt", "Model",
         {"image_size": PIXELS, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "drop_path_rate": 0.0,
          "num_attention_heads": [1, 1, 2, 2]}, *SEES),
    _row("segformer", "vision", "Segformer", "ForSemanticSegmentation",
         {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 4],
          "decoder_hidden_size": 16, "drop_path_rate": 0.0}, *SEES),
    _row("dpt", "vision", "DPT", "Model", IMAGE | {"backbone_out_indices": [0, 0, 1, 1]}, *SEES),
)  # fmt: skip
_OTHERS = (
    _row("whisper", "audio", "Whisper", "Model",
         SEQ2SEQ | {"num_mel_bins": 16, "max_source_positions": 32, "max_target_positions": 32},
         "input_features", "decoder_input_ids"),
    _row("wav2vec2", "audio", "Wav2Vec2", "Model", SPEECH, "input_values"),
    _row("hubert", "audio", "Hubert", "Model", SPEECH, "input_values"),
    _row("wavlm", "audio", "WavLM", "Model", SPEECH, "input_values"),
    _row("sew", "audio", "SEW", "Model", SPEECH | {"squeeze_factor": 2}, "input_values"),
    _row("clip", "multimodal", "CLIP", "Model", {"text_config": TEXT, "vision_config": IMAGE}, "input_ids", *SEES),
    _row("siglip", "multimodal", "Siglip", "Model", {"text_config": TEXT, "vision_config": IMAGE}, "input_ids", *SEES),
    _row("blip", "multimodal", "Blip", "Model", {"text_config": TEXT, "vision_config": IMAGE}, "input_ids", *SEES),
    _row("vilt", "multimodal", "Vilt", "Model", TEXT | IMAGE | {"max_image_length": -1}, "input_ids", *SEES),
    _row("chinese-clip", "multimodal", "ChineseCLIP", "Model", {"text_config": TEXT, "vision_config": IMAGE},
         "input_ids", *SEES),
    _row("patchtst", "time series", "PatchTST", "Model",
         {"num_input_channels": 3, "context_length": 32, "patch_length": 8, "patch_stride": 8, "d_model": 32,
          "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64}, "past_values"),
)  # fmt: skip

ARCHITECTURES: dict[str, Architecture] = {
    row.name: row for row in (*_ENCODERS, *_DECODERS, *_MIXTURES, *_RECURRENT, *_PAIRS, *_VISION, *_OTHERS)
}
