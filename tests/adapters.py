"""LoRA adapters: true ones with the shapes of a real model, and files that consist of a header."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np

from adaptrag_cli.models.gguf_header import read_metadata

SCALE = 0.05


def write_header(path: Path, **keys: object) -> Path:
    """Write a GGUF file without tensors, as an adapter of ours for `base`; `keys` (`.` is `__`) replace or, None, drop.

    A name that is no keyword is given by `**{"general.type": ...}`.
    """
    ours = {
        "general__type": "adapter",
        "general__architecture": "qwen2",
        "general__name": path.stem,
        "adapter__type": "lora",
        "adapter__lora__alpha": 8.0,
        "adaptrag__base__name": "base",
        "adaptrag__base__fingerprint": "sha256:base",
        "adaptrag__stage": "imitation",
        "adaptrag__created": "2026-11-28T20:00:00+00:00",
        "adaptrag__report": json.dumps({"rank": 4}),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, "unused")
    writer.kv_data[0].clear()
    for name, value in {**ours, **keys}.items():
        key = name.replace("__", ".")
        if isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        elif value is not None:
            writer.add_string(key, str(value))
    _finish(writer)
    return path


def write_lora(path: Path, model: Path, *, rank: int = 4, seed: int | None = 0, **keys: str) -> Path:
    """Write an adapter for a model's attention and feed-forward weights: random, or with `seed` None of no effect."""
    told = read_metadata(model)
    architecture = str(told["general.architecture"])
    width, inner, heads, key_heads, layers = (
        int(str(told[f"{architecture}.{key}"]))
        for key in (
            "embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv", "block_count",
        )
    )  # fmt: skip
    keys_width = width // heads * key_heads
    shapes = {
        "attn_q": (width, width), "attn_k": (width, keys_width), "attn_v": (width, keys_width),
        "attn_output": (width, width), "ffn_gate": (width, inner), "ffn_up": (width, inner), "ffn_down": (inner, width),
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in {"general.type": "adapter", "general.name": path.stem, "adapter.type": "lora", **keys}.items():
        writer.add_string(key, value)
    writer.add_float32("adapter.lora.alpha", float(rank))
    draw = np.random.default_rng(seed)
    for layer in range(layers):
        for name, (into, out) in shapes.items():
            a = draw.standard_normal((rank, into)) * SCALE
            b = draw.standard_normal((out, rank)) * SCALE * (seed is not None)
            for suffix, array in (("lora_a", a), ("lora_b", b)):
                writer.add_tensor(f"blk.{layer}.{name}.weight.{suffix}", array.astype(np.float32))
    _finish(writer)
    return path


def _finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
