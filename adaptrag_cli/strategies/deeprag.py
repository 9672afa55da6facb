"""DeepRAG: split a question into sub-queries, and decide at each of them whether to look it up. And IterDRAG.

Algorithm (Guan et al., 2025, sections 3.2 and 4; METHODS 9.1, 9.2), with a history h that begins with the question:
1. The next line = LLM(examples, h). "So the final answer is: ..." gives the answer. "Follow up: q" asks q.
2. Of the two markers that may follow q, the likelier is taken: "Intermediate answer:" answers it from memory;
   "Let's search the question in Wikipedia." looks it up, D = top 3 by BM25 for q (at most 64 tokens).
3. a = LLM(examples, h + q + D); h = h + q + D + a: what was found stays in the history. On with 1.
After 6 steps (`--max-steps`) the answer is asked for by "So the final answer is:". It also is where the next line is
empty or none of the two, and where it asks again what an earlier step has asked. Only the first line, where it is none
of the two, is written again behind "Follow up:": small untrained models begin with the search.
S steps, R of which look up, cost S sub-queries, S decisions, S answers and one last line: 3S+1 calls (one more where
the first line is written again) and R searches. A decision writes nothing: it evaluates the line that was just written,
and the answer's call finds that in the KV cache.

`--sources memory` is the paper's parametric-only form, which never looks up; with `--sources documents` every step
does. Neither decides: 2S+1 calls. `iterdrag` (Yue et al., 2024; METHODS 12b) is the latter with at most 5 steps.

Differs from the papers:
- The model is prompted, by six worked examples of our own; the paper's is trained to the form, and has none. With an
  adapter of `adaptrag deeprag train` every command takes none by default, for it was trained so.
- The paper's code reads the decision from the text that the model writes up to `Let` or `Intermediate answer:`. Here
  the first tokens of both markers are compared, which is the same where the model keeps to the form, and holds it to
  the form where it does not. The log-odds are in the trace.
- The final answer is one short phrase, without the long one that the paper's code has before it.
- The code asks an empty line again up to ten times; a greedy model would only write it again.
- IterDRAG looks up the question itself first; here (METHODS 12b) each sub-query alone.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import ClassVar

from adaptrag_cli import prompts
from adaptrag_cli.answers import final_answer
from adaptrag_cli.events import Candidate, Event, QueryBuilt, WarningRaised
from adaptrag_cli.stepwise.narrative import (
    CONTEXT,
    FOLLOW_UP,
    INTERMEDIATE_ANSWER,
    SEARCH,
    Piece,
    on_one_line,
    read_line,
    worked_examples,
)
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.reasoning import look_up_question
from adaptrag_cli.strategies.telling import (
    STEP_ANSWER_TOKENS,
    STEP_USES,
    SUB_QUERY_TOKENS,
    Found,
    Telling,
    shortened,
)

_LIKELY_FORM = 0.5
"""Both markers together are to be likelier than all else."""


class DeepRAG:
    """Ask step by step, and look up what the model does not know."""

    name: ClassVar[str] = "deeprag"
    paper: ClassVar[str] = "DeepRAG (Guan et al., 2025)"
    summary: ClassVar[str] = "ask one thing after the other, and decide at each whether to look it up"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = STEP_USES | {"examples", "sources"}
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options(retriever="sparse", max_steps=6, examples=6)

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Tell the narrative, and give its final answer."""
        return (yield from tell(query, use))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search for the question: what a step is looked up with that asks it as it is."""
        return (yield from look_up_question(query, use))


class IterDRAG:
    """Ask step by step, and look up every step."""

    name: ClassVar[str] = "iterdrag"
    paper: ClassVar[str] = "IterDRAG (Yue et al., 2024), as DeepRAG's baseline"
    summary: ClassVar[str] = "ask one thing after the other, and look up each"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = STEP_USES | {"examples"}
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options(retriever="sparse", max_steps=5, examples=6, sources="documents")

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Tell the narrative with documents in each step, and give its final answer."""
        options = replace(use.options, sources=self.defaults.sources)  # `--sources` is not of this method
        return (yield from tell(query, replace(use, options=options)))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search for the question: what a step is looked up with that asks it as it is."""
        return (yield from look_up_question(query, use))


def tell(query: str, use: Resources) -> Generator[Event, None, Answer]:
    """Tell a narrative from the sources that the options name."""
    options = use.options
    from_memory, from_documents = options.sources != "documents", options.sources != "memory"
    examples = worked_examples(options.examples, from_memory=from_memory, from_documents=from_documents)
    request = prompts.follow_ups(query, examples, from_memory=from_memory, from_documents=from_documents)
    telling = Telling(query=query, use=use, request=request)
    for _ in range(options.max_steps):
        line = (yield from telling.write("sub_query", SUB_QUERY_TOKENS)).text.strip()
        if answer := final_answer(line):
            return (yield from telling.conclude(answer))
        sub_query = yield from _read_sub_query(telling, line)
        if not sub_query or not (yield from telling.begin_step(sub_query)):
            break
        yield from _settle(telling, sub_query)
    else:
        yield from telling.used_up()
    return (yield from telling.finish())


def _read_sub_query(telling: Telling, line: str) -> Generator[Event, None, str]:
    """What a line asks; empty where it asks nothing, and told where it is no line of a narrative.

    Where the first line is none, the model is made to ask something.
    """
    piece = read_line(line)
    if piece is not None and piece.kind == "follow_up" and any(character.isalnum() for character in piece.text):
        return on_one_line(piece.text)
    if not line or (piece is not None and piece.kind == "final"):
        return ""
    then = "the steps end here" if telling.asked else "it is made to ask"
    yield WarningRaised(
        code="not_in_form",
        message=f"step {telling.step + 2} asks nothing: the model wrote {shortened(line)!r}, so {then}",
    )
    return "" if telling.asked else (yield from _made_to_ask(telling))


def _made_to_ask(telling: Telling) -> Generator[Event, None, str]:
    """What the model asks behind the marker; empty where that is nothing."""
    telling.parts.append(FOLLOW_UP)
    asked = on_one_line((yield from telling.write("sub_query", SUB_QUERY_TOKENS)).text)
    telling.parts.pop()
    return asked if any(character.isalnum() for character in asked) else ""


def _settle(telling: Telling, sub_query: str) -> Generator[Event, None, None]:
    """Answer a sub-query, from documents where that is decided."""
    telling.parts.append(f"{Piece(kind='follow_up', text=sub_query)}\n")
    found: Found | None = None
    if (yield from _decide(telling)):
        found = yield from telling.search(QueryBuilt(method="sub_query", text=sub_query))
        telling.parts += [f"{SEARCH}\n{CONTEXT}\n", found, "\n"]
    telling.parts.append(INTERMEDIATE_ANSWER)
    answer = on_one_line((yield from telling.write("intermediate_answer", STEP_ANSWER_TOKENS)).text)
    telling.parts.append(f" {answer}\n" if answer else "\n")
    yield from telling.end_step(answer, found)


def _decide(telling: Telling) -> Generator[Event, None, bool]:
    sources = telling.use.options.sources
    if sources != "both":
        retrieve = sources == "documents"
        yield from telling.decide(retrieve, "every step is looked up" if retrieve else "no step is looked up")
        return retrieve
    prompt = yield from telling.fitting_prompt(1)
    scores = telling.use.model.label_logprobs(prompt, (INTERMEDIATE_ANSWER, SEARCH))
    answer_logprob, search_logprob = scores.logprobs
    share = math.exp(answer_logprob) + math.exp(search_logprob)
    if share < _LIKELY_FORM:
        yield WarningRaised(
            code="not_in_form",
            message=f"step {telling.step + 1}: the model would rather write something else than one of the two "
            f"decisions (together p = {share:.2f}); the likelier one is taken",
        )
    retrieve = search_logprob > answer_logprob
    reason = "the model searches" if retrieve else "the model answers from memory"
    yield from telling.decide(retrieve, reason, scores)
    return retrieve
