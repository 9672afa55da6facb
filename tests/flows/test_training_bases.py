"""Model files that cannot be trained: each is told in one line, with what to do."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from adaptrag_cli.errors import ModelError
from adaptrag_cli.learning.lora import LoraShape, add_lora, load_base

HINT = "train another --model, such as one of: adaptrag models list"


def a_file(folder: Path, architecture: str, *, heads: int = 2) -> Path:
    """A model of one small layer, by its header; of its weights it holds the embeddings alone."""
    path = folder / f"{architecture}.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(8)
    writer.add_feed_forward_length(16)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(16)
    writer.add_tensor("token_embd.weight", np.zeros((16, 8), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("architecture", "heads", "reason"),
    [
        ("nothing", 2, "architecture nothing is not supported"),
        ("llama", 3, "hidden size .8. is not a multiple of the number of attention heads"),
        ("phi3", 2, "Padding_idx must be within num_embeddings"),
    ],
    ids=["unknown", "contradictory", "incomplete"],
)
def test_a_file_that_transformers_cannot_load(tmp_path: Path, architecture: str, heads: int, reason: str):
    path = a_file(tmp_path, architecture, heads=heads)
    with pytest.raises(ModelError, match=f"transformers cannot load {path}: .*{reason}") as told:
        load_base(path)
    assert told.value.hint == HINT
    assert "\n" not in told.value.message


def test_a_file_that_lacks_weights(tmp_path: Path):
    path = a_file(tmp_path, "llama")
    with pytest.raises(ModelError, match=r"lacks \d+ weights of its model, such as ") as told:
        load_base(path)
    assert told.value.hint == HINT


def test_a_file_that_was_cut_off(tmp_path: Path):
    path = a_file(tmp_path, "llama")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ModelError, match=f"transformers cannot load {path}: "):
        load_base(path)


def test_a_model_whose_layers_have_other_maps():
    from transformers import MambaConfig, MambaForCausalLM

    base = MambaForCausalLM(MambaConfig(vocab_size=16, hidden_size=8, num_hidden_layers=1))
    with pytest.raises(ModelError, match="the layers of a mamba model have no q_proj, k_proj, .* to train") as told:
        add_lora(base, LoraShape(), seed=0)
    assert told.value.hint == HINT
