"""Probing-RAG (Baek et al.): small networks read the model's states while it writes, and say whether to look up.

Algorithm (the paper's Algorithm 1):
1. rationale r and answer a = LLM(examples, question); u tokens
2. for each probed layer l: logits of its prober on Norm(Mean(H_l[-u:]))          Eq. 1 to 3
3. S_0 + theta > S_1, the sums over the layers: D = R(q, r, a), then R(q, D, r, a)  Eq. 6
4. (r, a) = LLM(examples, D, question), D in place of what was read before; to step 2, up to `--max-retrievals` times
`--decision probabilities` adds up the softmax of each layer's logits, as the released code does: a tie then retrieves.

Differs from the paper:
- A look-up is always followed by a new rationale before anything is probed again, and at the cap what is written
  stands. Algorithm 1 as printed looks up a last time and ends without reading what it found (the released code: up to
  four look-ups, the default here).
- The query is q + r + a in every round (`--probe-query text`). Eq. 6 adds the passages from the second one on
  (`literal`, in its order q, D, r, a): in a bag of words they drown the question. `question` searches for the question
  alone.
- A look-up that finds what was read already, or nothing, ends it: greedy decoding would write the same text again.
- The examples are ours, the passages stand behind them for the KV cache's sake, and the model's turn begins with
  "Rationale:" already. A rationale without an answer is ended with "Answer:", and a short second call writes it; what
  is probed is the mean over the tokens of both.
- The state of each call's last token is missing, for nothing follows it, and tokens of a stop string that were read
  before it was whole are counted; the prober begins with a LayerNorm, so sum and mean are the same (METHODS 8).
- A state that is no number looks up (the paper does not say). Where the model's own logits are none, nothing can be
  written, and the run ends in an error.
- A prober has two hidden layers, as in the released code; the paper's text has one. A greater theta looks up more, as
  in Algorithm 1 (Sec. 3.3 has its sign the other way round).
- Probers learn from some hundreds of questions and not 26,000 texts, so their recipe is another (`RECIPES["small"]`:
  learning rate 3e-4, up to 30 epochs of which the first two are warm-up, weight decay 0.05, ended by texts that are
  neither learned from nor held out); `adaptrag probe train --recipe paper|code` takes theirs.
- The index is the user's own (the paper: BM25 over Wikipedia), the model quantised, the prober trained for it on this
  machine: `adaptrag probe train`.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from adaptrag_cli.demonstrations import REASONING
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import (
    Candidate,
    DecisionMade,
    Event,
    LayerLogits,
    PathName,
    Phase,
    ProbeMeasured,
    QueryBuilt,
    TokensDiscarded,
    WarningRaised,
)
from adaptrag_cli.identity import flags_of
from adaptrag_cli.probing.decision import decide
from adaptrag_cli.strategies.base import Answer, Options, Resources
from adaptrag_cli.strategies.rationales import RATIONALE_USES, Rationale, write_rationale
from adaptrag_cli.strategies.reasoning import look_up_question, look_ups_used_up
from adaptrag_cli.strategies.steps import search_path, select_by_query

if TYPE_CHECKING:
    from adaptrag_cli.models.base import Generation
    from adaptrag_cli.probing.prober import Prober, ProberKind

PROBE_USES = frozenset({"prober", "theta", "decision"})
"""Options of every method that probes."""


class ProbingRAG:
    """Look up for as long as the probers ask for it."""

    name: ClassVar[str] = "probing"
    paper: ClassVar[str] = "Probing-RAG (Baek et al., 2025)"
    summary: ClassVar[str] = "let probers read the model's states, and look up while they ask for it"
    requires: ClassVar[frozenset[str]] = frozenset({"logprobs", "states"})
    uses: ClassVar[frozenset[str]] = (
        PROBE_USES | RATIONALE_USES | {"probe_query", "retriever", "top_k", "max_retrievals"}
    )
    probes: ClassVar[ProberKind] = "answer"
    most_examples: ClassVar[int] = len(REASONING)
    needs_index: ClassVar[bool] = True
    defaults: ClassVar[Options] = Options(
        retriever="sparse", top_k=5, max_retrievals=4, examples=4, rationale_tokens=150
    )

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]:
        """Write, probe, and if need be look up and write anew."""
        prober = prober_of(use)
        found: list[Candidate] = []
        for number in range(use.options.max_retrievals + 1):
            rationale = yield from write_rationale(query, found, use, tuple(prober.layers))
            probe = measure(prober, rationale.states, use.options, number=number)
            yield probe
            if not probe.retrieve or number == use.options.max_retrievals:
                break
            yield DecisionMade(retrieve=True, uncertainty=None, threshold=None, reason=reason_of(probe))
            before, found = found, (yield from _look_up(query, rationale, use))
            if not (yield from _is_news(found, before)):
                return _conclude(rationale)
            yield from _discard(rationale)
        if probe.retrieve:
            yield look_ups_used_up(use.options)
        reason = "the look-ups are used up" if probe.retrieve else reason_of(probe)
        yield DecisionMade(retrieve=False, uncertainty=None, threshold=None, reason=reason)
        return _conclude(rationale)

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Search for the question: what can be looked up before anything is written."""
        return (yield from look_up_question(query, use))


def prober_of(use: Resources) -> Prober:
    """The prober that decides.

    Raises:
        ConfigError: none was opened.
    """
    if use.prober is None:
        model = use.model.info.name
        raise ConfigError(f"no prober was trained for {model}", f"adaptrag probe train {flags_of(model)} ...")
    return use.prober


def measure(prober: Prober, states: Mapping[int, Sequence[float]], options: Options, *, number: int) -> ProbeMeasured:
    """Let the prober read states; none at all, and what is no number, mean: look up."""
    logits = prober.logits(states) if states else {}
    verdict = decide(logits.values(), theta=options.theta, rule=options.decision)
    return ProbeMeasured(
        round=number,
        layers=tuple(
            LayerLogits(layer=layer, retrieve=_finite(retrieve), stop=_finite(stop))
            for layer, (retrieve, stop) in logits.items()
        ),
        retrieve_score=_finite(verdict.retrieve_score),
        stop_score=_finite(verdict.stop_score),
        theta=options.theta,
        rule=options.decision,
        retrieve=verdict.retrieve,
        is_undefined=verdict.is_undefined,
    )


def reason_of(probe: ProbeMeasured) -> str:
    """What the probers say, in words and numbers: `the probers say look it up: 1.75 + 0.50 > 1.00`."""
    if not probe.comparison:
        why = "the probers read no numbers" if probe.layers else "there is no state to probe"
        return f"{why}, so it is looked up"
    return f"the probers say {'look it up' if probe.retrieve else 'stop'}: {probe.comparison}"


def _look_up(query: str, rationale: Rationale, use: Resources) -> Generator[Event, None, list[Candidate]]:
    built = _query(query, rationale, use.options)
    yield built
    path: PathName = "query" if built.method == "question" else "reasoning"
    found = yield from search_path(use, path, built.text, use.options.top_k)
    return (yield from select_by_query(query, found, use, path))


def _query(query: str, rationale: Rationale, options: Options) -> QueryBuilt:
    if options.probe_query == "question":
        return QueryBuilt(method="question", text=query)
    written = (rationale.reasoning, rationale.answer)
    if options.probe_query == "text" or not rationale.shown:
        return QueryBuilt(method="rationale", text=_in_a_line(query, *written))
    passages = (f"{chunk.title} {chunk.text}" for chunk in rationale.shown)
    return QueryBuilt(method="rationale_passages", text=_in_a_line(query, *passages, *written))


def _in_a_line(*parts: str) -> str:
    return " ".join(" ".join(parts).split())


def _is_news(found: Sequence[Candidate], before: Sequence[Candidate]) -> Generator[Event, None, bool]:
    """Whether another text would be written from what was found."""
    if not found:
        yield WarningRaised(code="nothing_found", message="the search found no chunk: what is written stands")
        return False
    if [chunk.chunk_id for chunk in found] == [chunk.chunk_id for chunk in before]:
        yield WarningRaised(
            code="nothing_new", message="the search found what was read already: what is written stands"
        )
        return False
    return True


def _discard(rationale: Rationale) -> Generator[Event, None, None]:
    """Take back what was written, in one call or two."""
    calls: tuple[tuple[Phase, Generation | None], ...] = (
        ("reasoning", rationale.generation),
        ("answer", rationale.completion),
    )
    for phase, call in calls:
        if call is not None and call.tokens:
            yield TokensDiscarded(phase=phase, from_step=0, text=call.text, reason="written anew with what was found")


def _conclude(rationale: Rationale) -> Answer:
    """Give the answer of the rationale that stands."""
    return Answer(
        text=rationale.answer,
        source="documents" if rationale.shown else "draft",
        extraction="marked",
        chunk_ids=tuple(chunk.chunk_id for chunk in rationale.shown),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
