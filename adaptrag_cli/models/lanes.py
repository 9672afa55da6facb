"""Decode several texts together: each in a sequence of its own, all in one batch per token.

Greedy decoding knows a text's next token as soon as the one before is measured, so it can be evaluated before anyone
asks for it. When one text needs its next token, the waiting tokens of all others are evaluated with it, and what they
give is kept until they ask. Whoever takes a token of each text in turn therefore has them all decoded as one batch,
without threads. On the CPU kernels this was measured on, batches of two and three give bit for bit the numbers of
one-by-one, larger ones do not (`tests/real/test_llama_lanes.py`). With an adapter no batch does, for its float weights
go through other kernels; so where numbers are to be equal its texts are decoded apart (`test_llama_adapters.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adaptrag_cli.errors import ModelError, RunCancelled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from adaptrag_cli.models.base import Attention
    from adaptrag_cli.models.context import NativeContext
    from adaptrag_cli.models.logits import TokenStatistics
    from adaptrag_cli.models.signals import StateMeans

MAX_EQUAL_LANES = 3
"""Texts in one batch whose numbers are those of one-by-one."""


@dataclass
class _Text:
    """A text that is being written."""

    waiting: int | None = None
    """The token that is to be evaluated next."""
    measured: TokenStatistics | None = None
    """What follows the last evaluated token, until it is taken."""
    seconds: float = 0.0
    states: StateMeans | None = None
    """What its evaluated tokens are counted in, where their states are wanted."""
    failure: BaseException | None = None
    """Why the text cannot go on, though another one's call found out."""


class LockStep:
    """The texts that are being written in the sequences of one context. Not for several threads."""

    def __init__(self, context: NativeContext, *, one_by_one: bool = False) -> None:
        """
        Args:
            one_by_one: evaluate each text's tokens alone.
        """
        self._context = context
        self._one_by_one = one_by_one
        self._texts: dict[int, _Text] = {}

    def open(self, sequence: int) -> None:
        """Expect a new text in a sequence, in place of the one before it.

        A cancellation is forgotten for the new text only: those that it was meant for stay stopped.
        """
        self.end(sequence)
        if self._context.stop.is_set:
            self._fail(self._texts, RunCancelled("stopped while the model was computing"))
            self._context.stop.reset()
        self._texts[sequence] = _Text()

    def begin(self, sequence: int, token_ids: Sequence[int], states: StateMeans | None = None) -> int:
        """Evaluate the prompt of an open text alone; return how many of its tokens were in the cache.

        The context's logits are then those after the prompt. The tokens that follow it are counted in `states`.

        Raises:
            RunCancelled: the stop flag was set.
            ModelError: llama.cpp refuses, or the logits are not numbers.
        """
        from adaptrag_cli.models.logits import token_statistics  # numpy

        self.require_running(sequence)
        started = time.perf_counter()
        with self._failing((sequence,)):
            reused = self._context.prefill(token_ids, sequence)
            measured = token_statistics(self._context.logits())
        self._texts[sequence] = _Text(measured=measured, seconds=time.perf_counter() - started, states=states)
        return reused

    def attend(self, sequence: int, token_ids: Sequence[int], *, first_row: int, layer: int) -> Attention:
        """Evaluate an open text alone, to its end, and return what its tokens from the `first_row`-th on attend to.

        Raises:
            RunCancelled: the stop flag was set.
            ModelError: llama.cpp refuses, or computes no such attention.
        """
        self.require_running(sequence)
        with self._failing((sequence,)):
            return self._context.attend(token_ids, first_row=first_row, layer=layer, sequence=sequence)

    def prompt_states(
        self, sequence: int, token_ids: Sequence[int], layers: Sequence[int]
    ) -> dict[int, NDArray[np.float32]]:
        """Evaluate the prompt of an open text alone, and return the state of its last token after some layers.

        Raises:
            RunCancelled: the stop flag was set.
            ModelError: llama.cpp refuses, or computes no such state.
        """
        self.require_running(sequence)
        with self._failing((sequence,)):
            return self._context.prompt_states(token_ids, layers, sequence)

    def follow(self, sequence: int, token_id: int) -> None:
        """The text goes on with this token: evaluate it with the next batch."""
        self._texts[sequence].waiting = token_id

    def take(self, sequence: int) -> TokenStatistics:
        """What follows the text so far; evaluates all that waits unless it is known already.

        Raises:
            RunCancelled: the stop flag was set.
            ModelError: llama.cpp refuses, or the logits are not numbers.
        """
        self.require_running(sequence)
        text = self._texts[sequence]
        if text.measured is None:
            self._evaluate_waiting((sequence,) if self._one_by_one else sorted(self._texts))
            self.require_running(sequence)
        measured, text.measured = text.measured, None
        assert measured is not None, "a text was asked for more than it was to go on with"
        return measured

    def require_running(self, sequence: int) -> None:
        """Raise what stopped the text, if anything did.

        Raises:
            RunCancelled: the stop flag is set, or was since the text began.
            ModelError: a batch that it was in failed.
        """
        failure = self._texts[sequence].failure
        if failure is not None:
            raise failure
        with self._failing(()):
            self._context.require_running()

    def seconds(self, sequence: int) -> float:
        """What the text has cost: its prefill, and its share of each batch."""
        return self._texts[sequence].seconds

    def end(self, sequence: int) -> None:
        """Nothing more is wanted of the sequence's text."""
        self._texts.pop(sequence, None)

    def _evaluate_waiting(self, sequences: Iterable[int]) -> None:
        from adaptrag_cli.models.logits import token_statistics

        started = time.perf_counter()
        batch = {s: token_id for s in sequences if (token_id := self._texts[s].waiting) is not None}
        with self._failing(batch):
            self._step(batch)
            for position, sequence in enumerate(batch):
                text = self._texts[sequence]
                text.waiting = None
                try:
                    text.measured = token_statistics(self._context.logits(position))
                except ModelError as error:  # of this text: the others have numbers of their own
                    text.failure = error
        share = (time.perf_counter() - started) / len(batch)
        for sequence in batch:
            self._texts[sequence].seconds += share

    def _step(self, batch: Mapping[int, int]) -> None:
        """Evaluate a batch, and count the states of the texts that want them."""
        wanting = [(i, states) for i, s in enumerate(batch) if (states := self._texts[s].states) is not None]
        if not wanting:
            self._context.step(batch)
            return
        rows = self._context.step_watched(batch, sorted({layer for _, states in wanting for layer in states.layers}))
        for position, states in wanting:
            states.add(rows, position)

    @contextmanager
    def _failing(self, sequences: Iterable[int]) -> Iterator[None]:
        """Let an error end the texts of these sequences; a cancellation empties the whole cache, so it ends all."""
        try:
            yield
        except RunCancelled as error:
            self._fail(self._texts, error)
            raise
        except BaseException as error:
            self._fail(sequences, error)
            raise

    def _fail(self, sequences: Iterable[int], error: BaseException) -> None:
        for sequence in sequences:
            text = self._texts[sequence]
            text.waiting, text.failure = None, text.failure or error
