"""Search-o1: search in the middle of a thought, and read what was found in a few words.

Algorithm (Li et al., 2025, section 3; METHODS 12b), with the text t of the model's turn:
1. t = t + LLM(examples, question, t), up to the end of a query between `<search>` and `</search>`.
2. D = top k for the query; r = LLM(D, question, t, query) condenses D in the light of what was thought before.
3. t = t + `<result>` r `</result>`. On with 1.
The text ends with "So the answer is"; after 5 searches (`--max-steps`) it is ended so.
S searches cost 2S+1 calls, and one more where the text did not come to its answer.

Differs from the paper:
- The markers are short tags instead of the paper's special tokens, and three worked examples of our own show them: it
  is meant for large reasoning models, and is here prompted on any model.
- Passages are chunks of the open index; the paper reads whole web pages.
- A result is one line of at most 64 tokens; the paper lets the condensing call reason at length.
- A query that was searched for already ends the text; the released code points to its result and goes on.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar

from adaptrag_cli import prompts
from adaptrag_cli.answers import SO_THE_ANSWER_IS, concluded_answer, concludes
from adaptrag_cli.events import Candidate, Event, QueryBuilt, WarningRaised
from adaptrag_cli.models.base import Generation
from adaptrag_cli.stepwise.narrative import on_one_line
from adaptrag_cli.strategies.answering import fit_prompt
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.reasoning import look_up_question
from adaptrag_cli.strategies.steps import generate
from adaptrag_cli.strategies.telling import STEP_ANSWER_TOKENS, STEP_USES, Found, Telling

_BEGIN, _END = "<search>", "</search>"
_STOPS = (_END, "\nQuestion:")


class SearchO1:
    """Let the model search while it thinks."""

    name: ClassVar[str] = "search-o1"
    paper: ClassVar[str] = "Search-o1 (Li et al., 2025), as DeepRAG's baseline"
    summary: ClassVar[str] = "think step by step, search between markers, and read the results condensed"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = STEP_USES | {"examples", "reasoning_tokens"}
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options(max_steps=5, examples=3, reasoning_tokens=384)

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Think, search and read by turns; conclude."""
        telling = Telling(query=query, use=use, request=prompts.searches(query, use.options.examples))
        thoughts, tokens_left = "", use.options.reasoning_tokens
        while tokens_left > 0:
            thought = yield from telling.write("reasoning", tokens_left, stop=_STOPS)
            thoughts, tokens_left = thoughts + thought.text, tokens_left - len(thought.tokens)
            searched = searched_for(thought)
            if concludes(thoughts) or not searched or not (yield from _begin_search(telling, searched)):
                # A search that is not made would stay open, and the answer would read as what is searched for.
                before, begun, _ = thought.text.partition(_BEGIN)
                telling.parts.append(before.rstrip() if begun else before)
                break
            telling.parts.append(thought.text)
            yield from _read(telling, searched)
        completion = ""
        if not concludes(thoughts):
            if tokens_left <= 0:
                yield WarningRaised(
                    code="reasoning_cut",
                    message=f"the chain of thought reached its {use.options.reasoning_tokens} tokens without coming to "
                    "an answer",
                )
            completion = (yield from telling.complete(SO_THE_ANSWER_IS)).strip()
        return (yield from telling.conclude(concluded_answer(thoughts, completion), "reasoned"))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search for the question: nothing is searched for before the model thinks."""
        return (yield from look_up_question(query, use))


def searched_for(thought: Generation) -> str:
    """The query with which a thought stops; empty where it stops without one."""
    _, begun, searched = thought.text.rpartition(_BEGIN)
    return on_one_line(searched) if begun and thought.stop_reason == "stop" and searched.strip() else ""


def _begin_search(telling: Telling, searched: str) -> Generator[Event, None, bool]:
    """Ask for it; say whether it is to be searched for."""
    if telling.step + 1 == telling.use.options.max_steps:
        yield from telling.used_up()
        return False
    return (yield from telling.begin_step(searched))


def _read(telling: Telling, searched: str) -> Generator[Event, None, None]:
    """Search, and put what the passages tell into the text."""
    use, before = telling.use, telling.written.rpartition(_BEGIN)[0]
    yield from telling.decide(True, "the model searches")
    found = yield from telling.search(QueryBuilt(method="written", text=searched))
    prompt, shown = yield from fit_prompt(
        found.chunks,
        use,
        STEP_ANSWER_TOKENS,
        lambda passages: use.model.build_prompt(prompts.condensed(telling.query, before, searched, passages)),
    )
    condensing = generate(
        use,
        "intermediate_answer",
        prompt,
        max_tokens=STEP_ANSWER_TOKENS,
        chunk_ids=tuple(chunk.chunk_id for chunk in shown),
        stop=("\n",),
    )
    result = on_one_line((yield from condensing).text)
    for chunk in shown:
        telling.consulted.setdefault(chunk.chunk_id, chunk)
    telling.parts.append(f"{_END}\n<result>{result or prompts.NOTHING_HELPS}</result>\n")
    yield from telling.end_step(result, Found(chunks=list(shown)))
