"""Decide Then Retrieve (Chen et al.): uncertainty-guided triggering, dual-path retrieval, adaptive selection.

Algorithm (the paper's section 4 and Algorithm 1):
1. draft a0 = LLM(direct prompt);  u = -(1/T) sum ln P(a_t)              Eq. 2, 3
2. u <= threshold: the draft is the answer
3. pseudo-context p = LLM(passage prompt)                               only after the trigger
4. D_q = top n by f(q), D_p = top n by f(p), U = D_q union D_p
5. keep the k chunks of U with the largest cos(theta1 + theta2)         Eq. 7
6. answer = LLM(prompt with the kept chunks, best first)

Differs from the paper:
- Ranked by the angle sum, with the cosine of Eq. 7 shown: the same order wherever s1 + s2 >= 0, and beyond that the
  cosine would prefer chunks that point away from both (`selection.py`). `--ais sum` is the released code's score.
- No repetition penalty (the released code has 1.1): u comes from raw logits, and a penalty would punish copying a name
  out of the question.
- The threshold comes from a measurement on the answer model where there is one: the paper's 0.001 is for 7B and 72B
  models and always triggers on small ones.
- Draft and answer end after 32 tokens and the pseudo-context after 128 (the paper: 1024), for a CPU's sake; the prompts
  ask for a phrase.
- A chunk's title or heading path is embedded with its text unless the index was built with `--body-only`.
- An empty draft has no uncertainty and retrieves (the released code raises).
- A blank pseudo-context leaves the query path alone to choose.

Ablations (Tab. 3): `gate=false` always looks up ("w/o UGT": two calls, no draft); `selection=1q+2p` or `2q+1p` takes a
fixed number of each path ("w/o AIS"); `paths=query` or `pseudo_context` searches one path ("w/o DPR", as PAIRS defines
it).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar

from adaptrag_cli.events import Candidate, DecisionMade, Event, PseudoContextWritten
from adaptrag_cli.strategies import dual_path
from adaptrag_cli.strategies.answering import ANSWER_USES, answer_from_chunks
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.steps import answer_with_draft, draft_answer, measure_draft, write_pseudo_context
from adaptrag_cli.uncertainty import decide, odds_of


class DecideThenRetrieve:
    """Look up only what the model is unsure of, on two paths."""

    name: ClassVar[str] = "dtr"
    paper: ClassVar[str] = "Decide Then Retrieve (Chen et al., 2026)"
    summary: ClassVar[str] = "draft first; look up on two paths only when the draft is uncertain"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs"})
    uses: ClassVar[frozenset[str]] = frozenset(
        {"threshold", "gate", "draft_tokens", "pseudo_context_tokens"} | dual_path.USES | ANSWER_USES
    )
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options()

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Draft, decide, and if need be retrieve, select and answer."""
        if not use.options.gate:
            yield DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason="there is no gate")
        else:
            draft = yield from draft_answer(query, use)
            uncertainty = yield from measure_draft(draft)
            decision = decide(uncertainty, use.options.threshold)
            yield DecisionMade(
                retrieve=decision.retrieve,
                uncertainty=uncertainty.value,
                threshold=use.options.threshold,
                reason=decision.reason,
                draft_odds=odds_of(uncertainty.value, use.draft_odds),
            )
            if not decision.retrieve:
                return answer_with_draft(draft)
        kept = yield from self.look_up(query, use)
        return (yield from answer_from_chunks(query, kept, use))

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Imagine a passage, search both paths, and select (steps 3 to 5)."""
        pseudo_context = (yield from write_pseudo_context(query, use)).text.strip()
        yield PseudoContextWritten(text=pseudo_context)
        return (yield from dual_path.look_up_both(query, pseudo_context, use))
