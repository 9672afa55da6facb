"""A little world for whole runs: four documents in a plane, and a scripted model that is unsure from memory."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from adaptrag_cli import engine
from adaptrag_cli.events import DraftOdds, Event, decode_event, encode_event
from adaptrag_cli.evidence import EvidenceRule
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.base import Options, Resources, Reuse, load_strategy
from fakes import ScriptedModel, reply
from laws import check_laws
from plane import PlaneEncoder, plane_index

QUERY = "Who lit the lamp?"
DRAFTING, IMAGINING, READING = "using a single word or phrase", "Write a passage", "based on the above context"
PAIRS_IMAGINING = "write a detailed passage"
# Angles in degrees; the query stands at 0 and the pseudo-context at 60, so chunks between them lie on their arc.
ANGLES = {"lit the lamp": 0.0, "imagined": 60.0, "Ottilie": 20.0, "fee": 70.0, "goats": 150.0, "harbour": -50.0}
DOCUMENTS = {
    "lamp.md": "Ottilie Brandt lit it in 1887.",
    "fees.md": "The mooring fee is 1,500 crowns.",
    "goats.txt": "The goats of Skarvik are brown.",
    "harbour.txt": "The harbour faces east.",
}

ODDS = (
    DraftOdds(above=0.0, up_to=0.3, right=9, drafts=12),
    DraftOdds(above=0.3, up_to=None, right=2, drafts=20),
)
RULE = EvidenceRule(max_answer_uncertainty=0.5, min_query_score=0.4)


def lamp_retriever(folder: Path, angles: dict[str, float] | None = None) -> Retriever:
    """Index the four documents and open them."""
    encoder = PlaneEncoder(folder / "encoder", ANGLES | (angles or {}))
    return Retriever(plane_index(folder, DOCUMENTS, encoder), encoder)


def unsure_model(model: ScriptedModel | None = None) -> ScriptedModel:
    """Unsure from memory (u = .5), sure from documents; replies that the model has already come first."""
    model = model or ScriptedModel()
    model.when(IMAGINING, reply("An imagined passage.", logprob=-1.0))
    model.when(PAIRS_IMAGINING, reply("An imagined passage.", logprob=-1.0))
    model.when("above context", reply("Ottilie Brandt", logprob=-0.05))
    model.when(DRAFTING, reply("Edison perhaps", logprob=[-0.25, -0.75]))
    return model


def run(
    model: ScriptedModel,
    retriever: Retriever | None,
    strategy: str = "dtr",
    /,
    *,
    query: str = QUERY,
    rule: EvidenceRule | None = None,
    reuse: Reuse | None = None,
    peek: bool = True,
    **options: object,
) -> list[Event]:
    """Run a question on a clock of whole milliseconds, and hold the trace to its laws."""
    use = Resources(
        model=model,
        retriever=retriever,
        options=Options(**{"threshold": 0.3, "top_n": 2, "top_k": 2, **options}),
        evidence_rule=rule,
        draft_odds=ODDS,
        reuse=reuse or Reuse(),
    )
    ticks = count()
    events = list(
        engine.answer(
            engine.Run(query=query, peek=peek), load_strategy(strategy), use, clock=lambda: next(ticks) / 1000
        )
    )
    check_laws(events)
    assert [decode_event(encode_event(event)) for event in events] == events
    return events
