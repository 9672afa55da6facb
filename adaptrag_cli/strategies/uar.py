"""UAR, in part: a prober on the states of the question decides once, then it is answered as `never` or `always` do.

Algorithm (Cheng et al., 2024, "Unified Active Retrieval"; METHODS 12b): four small classifiers on the model's state of
the question are asked in turn whether the user wants retrieval, whether the question needs knowledge, whether its
answer changes with time, and whether the model knows it.

Differs from the publication:
- Only the last one is here, the self-aware head. The other three are off: a question that is put to an index of
  documents asks for knowledge, and nothing on this machine says what the user intends or what has changed.
- It is trained like a prober of Probing-RAG (`adaptrag probe train --kind question`), with that network, on whether the
  model answered right from memory; of several probed layers the logits are added up.
- The states are those of middle layers and not of the last one, since that is what tells most in Probing-RAG's Fig. 4,
  and the last layer's state is near the next token alone.
- The state is that of the last token of the prompt that asks for a draft, so that a draft finds it in the KV cache. To
  read it counts as no call: nothing is written.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, ClassVar

from adaptrag_cli.events import Candidate, DecisionMade, Event
from adaptrag_cli.strategies.answering import answer_from_chunks
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.baselines import Always, Never
from adaptrag_cli.strategies.probing import PROBE_USES, measure, prober_of, reason_of
from adaptrag_cli.strategies.rationales import question_states
from adaptrag_cli.strategies.steps import answer_with_draft, draft_answer, measure_draft

if TYPE_CHECKING:
    from adaptrag_cli.probing.prober import ProberKind


class UAR:
    """Look up what the states of the question say the model does not know."""

    name: ClassVar[str] = "uar"
    paper: ClassVar[str] = "UAR (Cheng et al., 2024), its self-aware head"
    summary: ClassVar[str] = "let a prober read the states of the question, and look up what the model does not know"
    requires: ClassVar[frozenset[str]] = Never.requires | Always.requires | {"states"}
    uses: ClassVar[frozenset[str]] = Never.uses | Always.uses | PROBE_USES
    probes: ClassVar[ProberKind] = "question"
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options()

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Probe the question; draft only when nothing is looked up."""
        prober = prober_of(use)
        probe = measure(prober, question_states(query, use.model, tuple(prober.layers)), use.options, number=0)
        yield probe
        yield DecisionMade(retrieve=probe.retrieve, uncertainty=None, threshold=None, reason=reason_of(probe))
        if probe.retrieve:
            kept = yield from self.look_up(query, use)
            return (yield from answer_from_chunks(query, kept, use))
        draft = yield from draft_answer(query, use)
        yield from measure_draft(draft)
        return answer_with_draft(draft)

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search the query and keep the top k, as `always` does."""
        return (yield from Always().look_up(query, use))
