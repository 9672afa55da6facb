"""PAIRS (Chen et al., 2025): two answers from memory verify each other; where they differ, DPR-AIS looks up.

Algorithm (the paper's section 3 and Algorithm 1):
1. a1 = LLM(prompt b);  p = LLM(prompt a);  a2 = LLM(prompt c with the context p)      Fig. 9
2. a1 and a2 agree: a1 is the answer                                                 three calls, no search
3. else DPR-AIS: search q and p, keep the k chunks of the union with the largest cos(theta1 + theta2), and answer from
   them with prompt c; p is the one of step 1                                        four calls, two searches
`dpr-ais` is the same without the gate: p, both searches, the answer                 two calls, two searches

Differs from the paper:
- "The same or demonstrating semantic consistency" gets a rule (`agreement.py`): normalised exact match, or
  `--agreement containment|f1|cosine`. Empty answers never agree.
- A blank pseudo-context verifies nothing: the second answer is not asked for, and the query path alone is searched.
- Ranked by the angle sum, as in `dtr`; the titles of chunks are embedded and shown, as in `dtr`.
- Answers end after 48 tokens, tags included, and the pseudo-context after 128.
- The uncertainty of a1 is measured, over what stands between its tags, for comparison; it decides nothing.

Variants: `--exclude-numbers` looks up an agreed answer with a digit all the same (Tab. 5); `--ais dynamic` weighs the
two angles (Eq. 5, 8) and `--ais rerank` reads chunk and text together (Eq. 7); `--paths` and `--selection` are the
ablations of Tab. 3.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import replace
from typing import ClassVar

from adaptrag_cli import prompts
from adaptrag_cli.agreement import Agreement, agree
from adaptrag_cli.answers import tagged_answer
from adaptrag_cli.events import (
    AgreementMeasured,
    Candidate,
    DecisionMade,
    Event,
    PseudoContextWritten,
)
from adaptrag_cli.strategies import dual_path
from adaptrag_cli.strategies.answering import ANSWER_USES, TAGGED, answer_from_chunks, between_tags
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.steps import draft_answer, generate, measure_draft, write_pseudo_context

_LOOK_UP_USES = frozenset({"pseudo_context_tokens"}) | dual_path.USES
_DEFAULTS = Options(draft_tokens=48, answer_tokens=48)
"""Tags take about eight tokens."""


class Pairs:
    """Look up only where two answers from memory differ."""

    name: ClassVar[str] = "pairs"
    paper: ClassVar[str] = "PAIRS (Chen et al., 2025)"
    summary: ClassVar[str] = "answer twice from memory; look up on two paths only when the answers differ"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses: ClassVar[frozenset[str]] = frozenset(
        {"agreement", "agreement_limit", "exclude_numbers", "draft_tokens"} | _LOOK_UP_USES | ANSWER_USES
    )
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = _DEFAULTS

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Answer twice, compare, and if need be retrieve, select and answer."""
        draft = yield from draft_answer(query, use, prompts.pairs_direct)
        first = tagged_answer(draft.text)
        yield from measure_draft(replace(draft, tokens=between_tags(draft)))
        pseudo_context = yield from _imagine(query, use)
        second = yield from _answer_again(query, pseudo_context, use)
        agreement = yield from _compare(first, second, use)
        has_excluded_number = agreement.agree and use.options.exclude_numbers and re.search(r"\d", first) is not None
        retrieve = not agreement.agree or has_excluded_number
        reason = f"{agreement.reason}, but numbers are looked up" if has_excluded_number else agreement.reason
        yield DecisionMade(retrieve=retrieve, uncertainty=None, threshold=None, reason=reason)
        if not retrieve:
            return Answer(text=first, source="draft", extraction="tagged")
        kept = yield from dual_path.look_up_both(query, pseudo_context, use)
        return (yield from answer_from_chunks(query, kept, use, TAGGED))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Imagine a passage, search both paths, and select."""
        return (yield from _look_up(query, use))


class DualPath:
    """Look every question up on two paths (DPR-AIS)."""

    name: ClassVar[str] = "dpr-ais"
    paper: ClassVar[str] = "DPR-AIS of PAIRS (Chen et al., 2025)"
    summary: ClassVar[str] = "look every question up on two paths and select adaptively"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses: ClassVar[frozenset[str]] = frozenset(_LOOK_UP_USES | ANSWER_USES)
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = _DEFAULTS

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Imagine a passage, search both paths, select and answer."""
        yield DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="always looks up")
        kept = yield from self.look_up(query, use)
        return (yield from answer_from_chunks(query, kept, use, TAGGED))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Imagine a passage, search both paths, and select."""
        return (yield from _look_up(query, use))


def _look_up(query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
    pseudo_context = yield from _imagine(query, use)
    return (yield from dual_path.look_up_both(query, pseudo_context, use))


def _imagine(query: str, use: Resources) -> Generator[Event, None, str]:
    pseudo_context = (yield from write_pseudo_context(query, use, prompts.pairs_passage)).text.strip()
    yield PseudoContextWritten(text=pseudo_context)
    return pseudo_context


def _answer_again(query: str, pseudo_context: str, use: Resources) -> Generator[Event, None, str]:
    """Answer from the imagined passage, as if it had been found."""
    if not pseudo_context:
        return ""
    user_text = prompts.pairs_with_context(query, [prompts.Passage(title="", text=pseudo_context)])
    prompt = use.model.build_prompt(user_text)
    generation = yield from generate(use, "second_draft", prompt, max_tokens=use.options.draft_tokens)
    return tagged_answer(generation.text)


def _compare(first: str, second: str, use: Resources) -> Generator[Event, None, Agreement]:
    rule = use.options.agreement
    similarity: float | None = None
    if rule == "cosine":
        retriever = use.require_retriever()
        vectors = [retriever.embed(text) for text in (first, second)]
        if vectors[0] is not None and vectors[1] is not None:
            similarity = float(vectors[0] @ vectors[1])
    agreement = agree(rule, first, second, use.options.agreement_limit, similarity)
    yield AgreementMeasured(
        rule=rule,
        first=first,
        second=second,
        value=agreement.value,
        limit=agreement.limit,
        agree=agreement.agree,
    )
    return agreement
