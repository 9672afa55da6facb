"""Ask a model in words whether documents are needed, and do as it says.

Algorithm: one call asks the judge, its reply is read by the method's rule, and then either the question is looked up as
`always` does, or answered from memory as `never` does. Two LLM calls, at most one search; the draft is only written
when nothing is looked up.
- `llm-judge` (baseline of DTR, prompt of Fig. 15): the first standalone "yes" or "no". Yes looks up.
- `taare` (RetrievalQA, Zhang et al., 2024): the prompt names the date and has four examples. A word that is `yes`,
  `[yes]` or `'yes'` once commas, full stops and double quotes are gone looks up; five chunks are read.
- `can-answer` (the LLM-based baseline of Probing-RAG): four examples and a digit. 0 looks up.

What says neither: `llm-judge` and `can-answer` look up, since an answer from documents can still say that they do not
tell. `taare` does not, as its code does ("Yes:" and "Yes/No" are no such words).

Differs from the papers:
- The judge may be another model (`--judge-model`). DTR's 72B judged for both of its generators.
- A reply is read up to 16 tokens (TAARE: 100): every prompt asks for a single word.
- The wording and the examples of `taare` and `can-answer` are ours; DTR words no examples.
- `taare` is told the date of the day, or `--today`, without which a run does not repeat on another day.
"""

from __future__ import annotations

import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import replace
from datetime import date
from typing import ClassVar

from adaptrag_cli import prompts
from adaptrag_cli.events import Candidate, DecisionMade, Event
from adaptrag_cli.strategies.answering import answer_from_chunks
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.baselines import Always, Never
from adaptrag_cli.strategies.steps import answer_with_draft, draft_answer, generate, measure_draft

_QUOTE_WIDTH = 60


class _Judge(ABC):
    """Ask, read the reply, then do as `always` or `never`."""

    requires: ClassVar[frozenset[str]] = Never.requires | Always.requires
    uses: ClassVar[frozenset[str]] = Never.uses | Always.uses | {"judge", "judge_tokens"}
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options()
    looks_up_unreadable: ClassVar[bool] = True
    """What a reply that says neither leads to."""

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Ask the judge; draft only when nothing is looked up."""
        decision = yield from self._decide(query, use)
        yield decision
        if decision.retrieve:
            kept = yield from self.look_up(query, use)
            return (yield from answer_from_chunks(query, kept, use))
        draft = yield from draft_answer(query, use)
        yield from measure_draft(draft)
        return answer_with_draft(draft)

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search the question and keep the top k, as `always` does."""
        return (yield from Always().look_up(query, use))

    def _decide(self, query: str, use: Resources) -> Generator[Event, None, DecisionMade]:
        judging = use if use.judge is None else replace(use, model=use.judge)
        prompt = judging.model.build_prompt(self._ask(query, use))
        reply = (yield from generate(judging, "judge", prompt, max_tokens=use.options.judge_tokens)).text
        needed = self._read(reply)
        retrieve = self.looks_up_unreadable if needed is None else needed
        quote = textwrap.shorten(reply, _QUOTE_WIDTH, placeholder="...")
        said = "that documents are needed" if retrieve else "that memory is enough"
        if needed is None:
            said = f"neither, which counts as saying {said}"
        return DecisionMade(
            retrieve=retrieve, uncertainty=None, threshold=None, reason=f'the judge says {said}: "{quote}"'
        )

    @abstractmethod
    def _ask(self, query: str, use: Resources) -> str: ...

    @abstractmethod
    def _read(self, reply: str) -> bool | None:
        """Whether documents are needed; None when the reply says neither."""


class LLMJudge(_Judge):
    """Ask for Yes or No."""

    name: ClassVar[str] = "llm-judge"
    paper: ClassVar[str] = "LLM Judge, baseline of DTR (Chen et al., 2026)"
    summary: ClassVar[str] = "ask the model, or another one, whether documents are needed"

    def _ask(self, query: str, use: Resources) -> str:
        return prompts.judge(query)

    def _read(self, reply: str) -> bool | None:
        return read_yes_or_no(reply)


class TimeAwareJudge(_Judge):
    """Ask for [Yes] or [No], and name the date."""

    name: ClassVar[str] = "taare"
    paper: ClassVar[str] = "TA-ARE of RetrievalQA (Zhang et al., 2024)"
    summary: ClassVar[str] = "ask the model, which is told the date and shown examples, whether documents are needed"
    uses: ClassVar[frozenset[str]] = _Judge.uses | {"today"}
    defaults: ClassVar[Options] = Options(top_k=5)
    looks_up_unreadable: ClassVar[bool] = False

    def _ask(self, query: str, use: Resources) -> str:
        return prompts.time_aware_judge(query, use.options.today or date.today().isoformat())

    def _read(self, reply: str) -> bool | None:
        return read_bracketed_yes_or_no(reply)


class CanAnswer(_Judge):
    """Ask for the digit 1 or 0."""

    name: ClassVar[str] = "can-answer"
    paper: ClassVar[str] = "LLM-based, baseline of Probing-RAG"
    summary: ClassVar[str] = "ask the model for a digit: can it answer from memory?"

    def _ask(self, query: str, use: Resources) -> str:
        return prompts.can_answer(query)

    def _read(self, reply: str) -> bool | None:
        return read_digit(reply)


def read_yes_or_no(reply: str) -> bool | None:
    """The first standalone yes or no, in any case; part of a word or of a hyphenated word is none."""
    found = re.search(r"(?<!\w)(?<!\w-)(yes|no)(?!\w|-\w)", reply, flags=re.IGNORECASE)
    return None if found is None else found.group(1).lower() == "yes"


def read_bracketed_yes_or_no(reply: str) -> bool | None:
    """Whether a word is yes, bare, in brackets or in single quotes; `,`, `.` and `"` do not count (TAARE's rule)."""
    words = re.sub(r'[,."]', "", reply.lower()).split()
    if any(word in ("yes", "[yes]", "'yes'") for word in words):
        return True
    return False if any(word in ("no", "[no]", "'no'") for word in words) else None


def read_digit(reply: str) -> bool | None:
    """Whether the first standalone 0 or 1 is a 0: the model cannot answer from memory. `10` and `0.5` are neither."""
    found = re.search(r"(?<![\w.])([01])(?!\.?\w)", reply)
    return None if found is None else found.group(1) == "0"
