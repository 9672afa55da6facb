"""A transformer of random weights that reads bytes: small enough to be trained in a test."""

from __future__ import annotations

from adaptrag_cli.learning.lora import LoraShape, add_lora

FIRST_BYTE = 3
SHAPE = LoraShape(rank=2, alpha=4)


class ByteTokens:
    """A token is a byte; 1 begins and ends a user's turn, 2 ends the model's."""

    end_of_turn = 2

    def prompt(self, user_text: str, written: str = "") -> tuple[int, ...]:
        return (1, *self.plain(user_text), 1, *self.plain(written))

    def plain(self, text: str) -> tuple[int, ...]:
        return tuple(byte + FIRST_BYTE for byte in text.encode())

    def piece(self, token_id: int) -> bytes:
        return bytes([token_id - FIRST_BYTE]) if token_id >= FIRST_BYTE else b""

    def ends_turn(self, token_id: int) -> bool:
        return token_id == self.end_of_turn


def tiny_base(*, seed: int = 1):
    """A llama of two layers."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=256 + FIRST_BYTE,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
    )
    return LlamaForCausalLM(config).requires_grad_(False).eval()


def tiny_model(*, seed: int = 1, shape: LoraShape = SHAPE):
    """The same with an adapter that changes nothing yet."""
    return add_lora(tiny_base(seed=seed), shape, seed=seed)
