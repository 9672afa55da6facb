"""Decode several texts together: each in a sequence of its own, all in one batch per token.

Greedy decoding knows a text's next token as soon as the one before is measured, so it can be evaluated before anyone
asks for it. When one text needs its next token, the waiting tokens of all others are evaluated with it, and what they
give is kept until they ask. Whoever takes a token of each text in turn therefore has them all decoded as one batch,
without threads. On the CPU kernels this was measured on, batches of two and three give bit for bit the numbers of
one-by-one, larger ones do not (`tests/real/test_llama_lanes.py`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adaptrag_cli.models.context import NativeContext
    from adaptrag_cli.models.logits import TokenStatistics

MAX_EQUAL_LANES = 3
"""Texts in one batch whose numbers are those of one-by-one."""


class LockStep:
    """The texts that are being written in the sequences of one context."""

    def __init__(self, context: NativeContext) -> None:
        self._context = context
        self._waiting: dict[int, int] = {}
        """The token of each sequence that is to be evaluated next."""
        self._measured: dict[int, TokenStatistics] = {}
        """What follows the last evaluated token of a sequence, until it is taken."""
        self._seconds: dict[int, float] = defaultdict(float)

    def begin(self, sequence: int, token_ids: Sequence[int]) -> int:
        """Evaluate a prompt alone; return how many of its tokens were in the cache.

        Raises:
            RunCancelled: the stop flag was set.
            ModelError: llama.cpp refuses.
        """
        from adaptrag_cli.models.logits import token_statistics  # numpy

        self.end(sequence)
        started = time.perf_counter()
        reused = self._context.prefill(token_ids, sequence)
        self._measured[sequence] = token_statistics(self._context.logits())
        self._seconds[sequence] = time.perf_counter() - started
        return reused

    def follow(self, sequence: int, token_id: int) -> None:
        """The text goes on with this token: evaluate it with the next batch."""
        self._waiting[sequence] = token_id

    def take(self, sequence: int) -> TokenStatistics:
        """What follows the text so far; evaluates all that waits unless it is known already.

        Raises:
            RunCancelled: the stop flag was set.
            ModelError: llama.cpp refuses.
        """
        if sequence not in self._measured:
            self._evaluate_waiting()
        return self._measured.pop(sequence)

    def seconds(self, sequence: int) -> float:
        """What the text has cost: its prefill, and its share of each batch."""
        return self._seconds[sequence]

    def end(self, sequence: int) -> None:
        """Nothing more is wanted of this text."""
        self._waiting.pop(sequence, None)
        self._measured.pop(sequence, None)

    def _evaluate_waiting(self) -> None:
        from adaptrag_cli.models.logits import token_statistics

        started = time.perf_counter()
        batch = dict(sorted(self._waiting.items()))
        self._waiting.clear()
        self._context.step(batch)
        for position, sequence in enumerate(batch):
            self._measured[sequence] = token_statistics(self._context.logits(position))
        share = (time.perf_counter() - started) / len(batch)
        for sequence in batch:
            self._seconds[sequence] += share
