"""IRCoT: a sentence of reasoning and a look-up by turns, each for the other.

Algorithm (Trivedi et al., 2023, section 3; METHODS 6.2):
1. D = top k for the question.
2. The next sentence = first sentence of LLM(examples, D, question, text); it is kept.
3. D = D and the top k for the last sentence that states something: those that only draw a conclusion (thus, so,
   therefore, hence, that is, or a sum) are passed over, and where none is left the question is searched for. Words that
   only ask are left out of the query. Nearly equal chunks count once, and at most 15 are held. On with 2.
The text ends with a sentence that says "answer is", with an empty one, and after 10 sentences (`--max-retrievals`).
Then a reader answers from all chunks that were read: in a few words (`--reader direct`) or step by step (`reasoned`).
Without one (`none`, the default) the text's own conclusion is the answer.
S sentences cost S searches and S calls, and one call more for the reader.

Differs from the paper:
- The reader is off by default, as in the tables of DRAGIN and ETC, where the text's conclusion is the answer; with
  `--context-policy replace` it is what stands there for IRCoT. The paper always reads once more.
- k = 3 (the paper tunes it between 2 and 8, and fixes 6 for its largest sets): a CPU evaluates each chunk anew with
  every sentence, because it stands before the text.
- A sentence that the text already holds ends it: small models would write and look it up again to the end.
- Chunks are not cut at 350 words, and none is dropped for having more than 600; what does not fit the context window is
  left out, the last found first.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar

from adaptrag_cli.answers import normalise_answer
from adaptrag_cli.events import Candidate, DecisionMade, Event, WarningRaised
from adaptrag_cli.stepwise.interleaving import interleaved_query, stated_answer
from adaptrag_cli.strategies.answering import ANSWER_USES, answer_from_chunks
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.reasoning import (
    REASONING_USES,
    RETRIEVING_USES,
    Thought,
    look_up_question,
    look_ups_used_up,
)
from adaptrag_cli.words import split_sentences


class IRCoT:
    """Look up between all sentences."""

    name: ClassVar[str] = "ircot"
    paper: ClassVar[str] = "IRCoT (Trivedi et al., 2023)"
    summary: ClassVar[str] = "think step by step, and look the last sentence up before the next one"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = REASONING_USES | RETRIEVING_USES | ANSWER_USES | {"reader"}
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options(retriever="sparse", context_policy="accumulate", max_retrievals=10)

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Reason and look up by turns; conclude, or let the reader answer."""
        return (yield from interleave(query, use, "before every sentence"))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search for the question: what is looked up before anything is written."""
        return (yield from look_up_question(query, use))


def interleave(query: str, use: Resources, reason: str) -> Generator[Event, None, Answer]:
    """Run IRCoT on a question; `reason` says why the first look-up is made."""
    thought = Thought(query=query, use=use)
    goes_on = True
    while goes_on and thought.tokens_left:
        if not thought.may_look_up:
            yield look_ups_used_up(use.options)
            break
        yield DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason=reason)
        reason = "before every sentence"
        built = interleaved_query(query, thought.text)
        yield from thought.look_up(built, path="query" if built.method == "question" else "reasoning")
        goes_on = yield from _add_sentence(thought)
    return (yield from _answer(thought))


def _add_sentence(thought: Thought) -> Generator[Event, None, bool]:
    """Keep the next sentence; say whether another one follows."""
    sentence = yield from thought.think(thought.tokens_left, max_sentences=1)
    if _repeats(thought.text, sentence.text):
        yield from thought.keep(sentence, until=0, reason="the sentence stands there already")
        yield WarningRaised(
            code="no_progress", message="the model writes a sentence again, so the chain of thought ends here"
        )
        return False
    yield from thought.keep(sentence)
    thought.forget_chunks()
    return sentence.stop_reason != "end" and bool(sentence.text.strip()) and stated_answer(sentence.text) is None


def _repeats(text: str, sentence: str) -> bool:
    new = normalise_answer(sentence)
    return bool(new) and new in {normalise_answer(earlier) for earlier in split_sentences(text)}


def _answer(thought: Thought) -> Generator[Event, None, Answer]:
    use = thought.use
    chunks = tuple(thought.consulted.values())
    if use.options.reader == "none" or not chunks:
        return (yield from thought.conclude())
    if use.options.reader == "reasoned":
        return (yield from thought.answer_anew())
    return (yield from answer_from_chunks(thought.query, chunks, use))
