"""Auto-RAG: think about what was found, and refine the query until nothing is missing.

Algorithm (Yu et al., 2024, section 3; METHODS 12b), with a history h that begins with the question, and q = the
question:
1. D = top k for q; h = h + D.
2. The thought t = LLM(examples, h) tells what D says and what is missing; h = h + t.
3. The next line = LLM(examples, h). "So the final answer is: ..." gives the answer; "Query: q" goes on with 1.
After 10 rounds (`--max-steps`) the question is answered from memory.
S rounds cost 2S calls and S searches, and one call more where they are used up.

Differs from the paper:
- The model is prompted, by three worked examples of our own; the paper's is trained on such dialogues.
- After its rounds the paper's model writes up to five passages of its own and answers from them; here it answers at
  once.
- A line that is neither a query nor the answer, and a query that was searched for already, end the rounds: the answer
  is asked for by "So the final answer is:".
- k = 3 of the open index with the chosen retriever (the paper: dense, over Wikipedia).
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import ClassVar

from adaptrag_cli import prompts
from adaptrag_cli.answers import final_answer
from adaptrag_cli.events import Candidate, Event, QueryBuilt, WarningRaised
from adaptrag_cli.stepwise.narrative import CONTEXT, on_one_line
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.reasoning import look_up_question
from adaptrag_cli.strategies.steps import answer_with_draft, draft_answer
from adaptrag_cli.strategies.telling import STEP_ANSWER_TOKENS, STEP_USES, SUB_QUERY_TOKENS, Telling, shortened

_QUERY = re.compile(r"(?:refined\s+)?query\s*:\s*(.*)", flags=re.IGNORECASE)


class AutoRAG:
    """Let the model refine the query until it has what it needs."""

    name: ClassVar[str] = "auto-rag"
    paper: ClassVar[str] = "Auto-RAG (Yu et al., 2024), as DeepRAG's baseline"
    summary: ClassVar[str] = "look up, think about what was found, and refine the query until nothing is missing"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = STEP_USES | {"examples", "draft_tokens"}
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options(max_steps=10, examples=3)

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Look up round by round, and give what the last one concludes."""
        telling = Telling(query=query, use=use, request=prompts.refined_queries(query, use.options.examples))
        asks, reason = QueryBuilt(method="question", text=query), "the question is looked up first"
        for _ in range(use.options.max_steps):
            if not (yield from telling.begin_step(asks.text)):
                return (yield from telling.finish())
            yield from telling.decide(True, reason)
            yield from _read(telling, asks)
            line = (yield from telling.write("sub_query", SUB_QUERY_TOKENS)).text.strip()
            if answer := final_answer(line):
                return (yield from telling.conclude(answer))
            refined = yield from _refined_query(telling, line)
            if not refined:
                return (yield from telling.finish())
            telling.parts.append(f"Query: {refined}\n")
            asks, reason = QueryBuilt(method="written", text=refined), "something is missing"
        yield WarningRaised(
            code="steps_used_up",
            message=f"steps are used up (--max-steps {use.options.max_steps}): the question is answered from memory",
        )
        return answer_with_draft((yield from draft_answer(query, use)))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search for the question: what the first round finds."""
        return (yield from look_up_question(query, use))


def _read(telling: Telling, asks: QueryBuilt) -> Generator[Event, None, None]:
    """Look a query up, and let the model think about what is found."""
    found = yield from telling.search(asks)
    telling.parts += [f"{CONTEXT}\n", found, "\nThought:"]
    thought = on_one_line((yield from telling.write("intermediate_answer", STEP_ANSWER_TOKENS)).text)
    telling.parts.append(f" {thought}\n" if thought else "\n")
    yield from telling.end_step(thought, found)


def _refined_query(telling: Telling, line: str) -> Generator[Event, None, str]:
    """The query of a line; empty where it has none, and told where it is no line of such a dialogue."""
    found = _QUERY.match(line)
    if found and any(character.isalnum() for character in found[1]):
        return on_one_line(found[1])
    if line and not line.lower().startswith("so the final answer"):
        yield WarningRaised(
            code="not_in_form",
            message=f"step {telling.step + 2} asks nothing: the model wrote {shortened(line)!r}, so the steps end here",
        )
    return ""
