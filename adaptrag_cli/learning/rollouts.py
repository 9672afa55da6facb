"""Let a model in torch write narratives as it likes, several of one question at a time, with what it searches for.

All texts of a group are as long as each other at any time: a passage that one of them reads is fed a token at a time
while the others go on writing. What was fed is marked, for nothing is to be learned from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from adaptrag_cli.learning.examples import CUT_OFF, TurnTokens
from adaptrag_cli.stepwise.narrative import CONTEXT, Narrative, numbered, parse, read_line

_FORM = re.compile(r"(follow_up (search )?answer )*final ")
Search = Callable[[str], Sequence[str]]
"""The passages that are found for a sub-query."""


class WritingTokens(TurnTokens, Protocol):
    """How a model reads and writes turns: `models.vocabulary.ChatTokens`."""

    def ends_turn(self, token_id: int) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How far a model may write."""

    max_tokens: int = 256
    """That it writes itself."""
    cut_off: int = CUT_OFF
    """Tokens of the whole text, with its prompt and what was fed."""
    max_searches: int = 6
    top_k: int = 3
    temperature: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A narrative that a model has written."""

    prompt: tuple[int, ...]
    token_ids: tuple[int, ...]
    """Behind the prompt."""
    is_own: tuple[bool, ...]
    """Of each token: whether the model has written it; the others are passages."""
    text: str
    own_text: str
    """Without the passages."""
    searches: int
    """Of which a step may have several."""

    def __len__(self) -> int:
        return len(self.prompt) + len(self.token_ids)

    @property
    def narrative(self) -> Narrative:
        return parse(self.text)

    @property
    def is_well_formed(self) -> bool:
        """Whether what the model has written is a narrative to its end, and nothing else."""
        return is_well_formed(self.own_text)


def is_well_formed(own_text: str) -> bool:
    """Whether a text, less the passages that were fed to it, is a whole narrative, marker by marker."""
    kinds = ""
    for line in own_text.strip().split("\n"):
        piece = read_line(line)
        if piece is None or str(piece) != line.strip() or not (piece.text or piece.kind == "search"):
            return False
        kinds += f"{piece.kind} "
    return _FORM.fullmatch(kinds) is not None


@dataclass
class _Writing:
    """A text that is being written."""

    token_ids: list[int] = field(default_factory=list)
    is_own: list[bool] = field(default_factory=list)
    fed: list[int] = field(default_factory=list)
    """Tokens of passages that are still to be read."""
    written: bytes = b""
    own: bytes = b""
    """What the model has written of it."""
    looked_at: int = 0
    """Bytes of it, up to the end of a line."""
    searches: int = 0
    is_over: bool = False

    def take(self, token_id: int, piece: bytes, *, is_own: bool) -> None:
        self.token_ids.append(token_id)
        self.is_own.append(is_own)
        self.written += piece
        self.own += piece if is_own else b""

    @property
    def text(self) -> str:
        return self.written.decode("utf-8", "replace")


def write_group(
    model: Any, tokens: WritingTokens, user_text: str, search: Search, *, group: int, limits: Limits, seed: int
) -> list[Rollout]:
    """Let the model answer a user's turn so many times; the seed decides what it draws."""
    import torch
    from transformers import DynamicCache

    prompt = tokens.prompt(user_text)
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    writings = [_Writing() for _ in range(group)]
    was_training = model.training
    model.eval()
    with torch.no_grad():
        cache = DynamicCache()
        logits = model(input_ids=torch.tensor([prompt], device=device), cache=cache, logits_to_keep=1).logits
        logits = logits.expand(group, -1, -1)
        cache.batch_repeat_interleave(group)
        while True:
            likely = (logits[:, -1].float().cpu() / limits.temperature).softmax(dim=-1)
            drawn = torch.multinomial(likely, 1, generator=generator)[:, 0].tolist()
            step = [_advance(each, token, tokens, search, limits) for each, token in zip(writings, drawn, strict=True)]
            for each in writings:
                each.is_over = each.is_over or len(prompt) + len(each.token_ids) >= limits.cut_off
            if all(each.is_over for each in writings):
                break
            fed = torch.tensor(step, device=device)[:, None]
            logits = model(input_ids=fed, cache=cache, logits_to_keep=1).logits
    model.train(was_training)
    return [
        Rollout(
            prompt=prompt,
            token_ids=tuple(each.token_ids),
            is_own=tuple(each.is_own),
            text=each.text,
            own_text=each.own.decode("utf-8", "replace"),
            searches=each.searches,
        )
        for each in writings
    ]


def _advance(writing: _Writing, drawn: int, tokens: WritingTokens, search: Search, limits: Limits) -> int:
    """Add the next token of a text, drawn or fed, and say which it is; a text that is over goes on with anything."""
    if writing.is_over:
        return tokens.end_of_turn
    if writing.fed:
        token_id = writing.fed.pop(0)
        writing.take(token_id, tokens.piece(token_id), is_own=False)
        writing.looked_at = len(writing.written)
        return token_id
    if tokens.ends_turn(drawn):
        writing.take(drawn, b"", is_own=True)
        writing.is_over = True
        return drawn
    writing.take(drawn, tokens.piece(drawn), is_own=True)
    _read_lines(writing, tokens, search, limits)
    if sum(writing.is_own) >= limits.max_tokens:
        writing.is_over = True
    return drawn


def _read_lines(writing: _Writing, tokens: WritingTokens, search: Search, limits: Limits) -> None:
    """Look at the lines that have come to their end: one searches, another ends the narrative."""
    *whole, _ = writing.written[writing.looked_at :].split(b"\n")
    writing.looked_at += sum(len(line) + 1 for line in whole)
    kinds = {piece.kind for line in whole if (piece := read_line(line.decode("utf-8", "replace"))) is not None}
    if "final" in kinds:
        writing.is_over = True
    elif "search" in kinds:
        steps = parse(writing.text).steps
        if not steps or writing.searches == limits.max_searches:
            writing.is_over = True
            return
        writing.searches += 1
        found = numbered(tuple(search(steps[-1].sub_query))[: limits.top_k])
        writing.fed += tokens.plain(f"{CONTEXT}\n{found or '(nothing was found)'}\n")


def search_among(passages: Iterable[str]) -> Search:
    """Search passages by BM25, best first; one that has no word of the query is not found."""
    from rank_bm25 import BM25Okapi

    from adaptrag_cli.index.tokeniser import tokenise

    known = tuple(dict.fromkeys(passages))
    if not known:
        return lambda _query: ()
    statistics = BM25Okapi([tokenise(passage) or [""] for passage in known])

    def search(query: str) -> Sequence[str]:
        scores = statistics.get_scores(tokenise(query))
        ranked = sorted(range(len(known)), key=lambda number: (-scores[number], number))
        return [known[number] for number in ranked if scores[number] > 0]

    return search
