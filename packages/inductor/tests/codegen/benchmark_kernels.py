"""Speed of generated kernels against eager: `python benchmark_kernels.py [substring]`. GB/s count each tensor once."""

from __future__ import annotations

import sys
import time

import sample_kernels as make
import torch
from sample_kernels import Sample
from triptych_inductor.runtime import compile_kernels

BF16, F32 = torch.bfloat16, torch.float32


def samples() -> dict[str, Sample]:
    n = 1 << 20
    return {
        "gelu f32": make.gelu(n),
        "gelu bf16": make.gelu(n, BF16),
        "tanh gelu f32": make.tanh_gelu(n),
        "tanh gelu bf16": make.tanh_gelu(n, BF16),
        "silu mul f32": make.silu_mul(n),
        "silu mul bf16": make.silu_mul(n, BF16),
        "bf16 to f32": make.cast(n, BF16, F32),
        "f32 to bf16": make.cast(n, F32, BF16),
        "f16 to f32": make.cast(n, torch.float16, F32),
        "f32 to f16": make.cast(n, F32, torch.float16),
        "dropout": make.dropout_mask(n),
        "adamw": make.adamw(n),
        "softmax 4096x128": make.softmax(4096, 128),
        "softmax 512x1024": make.softmax(512, 1024),
        "softmax bf16 4096x128": make.softmax(4096, 128, BF16),
        "softmax backward 4096x128": make.softmax_backward(4096, 128),
        "log softmax 64x30522": make.log_softmax(64, 30522),
        "layer norm 512x256": make.layer_norm(512, 256),
        "layer norm 4096x768": make.layer_norm(4096, 768),
        "layer norm bf16": make.layer_norm(4096, 768, BF16),
        "layer norm backward 4096x768": make.layer_norm_backward(4096, 768),
        "column sums 512x256": make.column_sums(512, 256),
        "column sums 4096x768": make.column_sums(4096, 768),
        "column sums 65536x64": make.column_sums(65536, 64),
        "column sums bf16": make.column_sums(4096, 768, BF16),
        "gelu backward sums": make.gelu_backward_sums(512, 768),
        "total sum": make.total_sum(n),
        "batch norm 8x64x3136": make.batch_norm(8, 64, 3136, False),
        "batch norm last": make.batch_norm(8, 64, 3136, True),
        "batch norm last c=512": make.batch_norm(8, 512, 49, True),
        "add transposed 1024": make.add_transposed(1024),
        "embedding": make.embedding(4096, 256, 30000),
    }


def seconds(run, least: float = 0.1) -> float:
    """Fastest of repeated runs."""
    run()
    times, end = [], time.process_time() + least
    while time.process_time() < end or len(times) < 5:
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return sorted(times)[len(times) // 5]


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = {name: s for name, s in samples().items() if wanted in name}
    for k, sample in enumerate(chosen.values()):
        sample.kernel.name = f"kernel_{k}"
    start = time.process_time()
    library = compile_kernels([s.kernel for s in chosen.values()]).result()
    print(f"built in {time.process_time() - start:.2f} s; {torch.get_num_threads()} threads")
    print(f"{'kernel':30} {'us':>9} {'eager us':>9} {'ratio':>6} {'GB/s':>6}  error")
    for name, sample in chosen.items():
        call = library[sample.kernel.name]
        ours = seconds(lambda: call(*sample.inputs, *sample.outputs))
        eager = seconds(lambda: sample.eager(*sample.inputs))
        want = sample.eager(*sample.inputs)
        want = want if isinstance(want, tuple) else (want,)
        error = max(float((a.double() - b.double()).abs().max()) for a, b in zip(sample.outputs, want, strict=False))
        print(
            f"{name:30} {ours * 1e6:9.1f} {eager * 1e6:9.1f} {eager / ours:6.2f} "
            f"{sample.bytes / ours / 1e9:6.1f}  {error:.1e}"
        )


if __name__ == "__main__":
    main()
