"""The tables of `-v`: every number of a run, in columns that need no line drawing and read well at 80 characters.

All text goes through `printable` and becomes a rich `Text`, so neither escapes nor markup in a document mean anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from adaptrag_cli.events import ChunksReranked, DraftOdds, PathName, Phase, RunFinished, StopReason, TokenGenerated
from adaptrag_cli.identity import shortened
from adaptrag_cli.look_ups import is_conclusion
from adaptrag_cli.render import agreement_in_words, score_label, weighing_line
from adaptrag_cli.round_tables import print_chunks, print_probes, print_reasoning
from adaptrag_cli.run_summary import RunSummary, Writing
from adaptrag_cli.table_layout import Row, drawing_on, head, paragraph, table

if TYPE_CHECKING:
    from rich.console import Console

_ALTERNATIVES_SHOWN = 3
_ENDINGS: Mapping[StopReason, str] = {
    "end": "the model itself",
    "stop": "a stop text or sentence",
    "length": "its limit",
}
"""What ended a call."""
_FINGERPRINT = 28
"""Characters of one that are shown: two fit a line."""
PATH_NAMES: Mapping[PathName, str] = {
    "query": "query",
    "pseudo_context": "pseudo-context",
    "expanded": "expanded",
    "reasoning": "reasoning",
}
"""What a path is called."""
PATH_LETTERS: Mapping[PathName, str] = {"query": "q", "pseudo_context": "p", "expanded": "e", "reasoning": "r"}
"""And where one letter has to do."""
READ_AGAINST: Mapping[PathName, str] = {
    "query": "the question",
    "pseudo_context": "the pseudo-context",
    "expanded": "the expanded question",
    "reasoning": "the query made of the reasoning",
}


def print_tables(run: RunSummary, stream: TextIO) -> None:
    """Print settings, model, draft tokens, search paths, ranking, evidence, model calls and times to `stream`."""
    with drawing_on(stream) as console:
        _print_setup(run, console)
        _print_text(run, "judge", "what the judge said", console)
        _print_draft(run, console)
        print_reasoning(run, console)
        print_probes(run, console)
        _print_agreement(run, console)
        _print_text(run, "rationale", "rationale (written by the model to widen the question, never evidence)", console)
        _print_paths(run, console)
        for reranked in run.reranking.values():
            _print_reranking(run, reranked, console)
        _print_ranking(run, console)
        _print_evidence(run, console)
        if run.weighing:
            head(console, "weighing")
            paragraph(console, weighing_line(run.weighing))
        _print_calls(run, console)
        if run.finished:
            _print_times(run.finished, console)


def _print_setup(run: RunSummary, console: Console) -> None:
    start = run.started
    head(console, "settings")
    table(console, ("name", "value", "from"), [(s.name, s.value, s.origin) for s in start.settings])
    threads = "1 thread" if start.threads == 1 else f"{start.threads} threads"
    entropy = "the whole vocabulary" if start.entropy_support == "full" else "the best tokens only"
    table(
        console,
        (),
        [
            ("model", start.model),
            ("", shortened(start.model_fingerprint, _FINGERPRINT)),
            (
                "",
                f"context {start.context_length} tokens, {threads}, entropy over {entropy}",
            ),
            ("GPU layers", f"asked {start.gpu_layers_requested}, got {start.gpu_layers_used}: {start.gpu_reason}"),
            ("index", start.index or "none"),
            ("", shortened(start.index_fingerprint, _FINGERPRINT)),
        ],
    )


def _print_draft(run: RunSummary, console: Console) -> None:
    draft = run.writings.get("draft")
    if draft is None:
        return
    measured = run.uncertainty
    value = "undefined" if measured is None or measured.value is None else f"{measured.value:.4f}"
    reused = ", handed in" if draft.is_reused else ""
    name = f"{measured.name} u = {value}" if measured else "not measured"
    head(console, f"draft ({len(draft.tokens)} tokens{reused}, {name}; entropy in nats)")
    rows = [
        (t.step, quoted(t.text), f"{probability(t.logprob)}", f"{t.logprob:.3f}", f"{t.entropy:.3f}", others(t))
        for t in draft.tokens
    ]
    table(console, ("#", "token", "p", "logprob", "entropy", "instead of it"), rows, right=(0, 2, 3, 4))
    if run.decision and run.decision.draft_odds:
        paragraph(console, odds_in_words(run.decision.draft_odds))


def _print_text(run: RunSummary, phase: Phase, title: str, console: Console) -> None:
    writing = run.writings.get(phase)
    if writing is not None:
        head(console, title)
        paragraph(console, writing.text.strip() or "(blank)")


def _print_agreement(run: RunSummary, console: Console) -> None:
    agreement = run.agreement
    if agreement is None:
        return
    head(console, "two answers without documents")
    rows = [("from memory", agreement.first), ("from the pseudo-context", agreement.second)]
    table(console, (), [*rows, ("agreement", agreement_in_words(agreement))])


def odds_in_words(odds: DraftOdds | None) -> str:
    """How often such drafts were right: `of 18 measured drafts with u in 0.30-0.60, 4 were right (22 %)`."""
    if odds is None:
        return "no odds were measured for this model"
    band = f"above {odds.above:.2f}" if odds.up_to is None else f"in {odds.above:.2f}-{odds.up_to:.2f}"
    if not odds.drafts:
        return f"no draft with u {band} was measured for this model"
    were = "was" if odds.right == 1 else "were"
    share = round(100 * odds.right / odds.drafts)
    return f"of {odds.drafts} measured drafts with u {band}, {odds.right} {were} right ({share} %)"


def others(token: TokenGenerated) -> str:
    """The best tokens instead of this one, with their probabilities."""
    others = [a for a in token.alternatives if a.text != token.text][:_ALTERNATIVES_SHOWN]
    return "  ".join(f"{quoted(a.text)} {probability(a.logprob)}" for a in others)


def _print_paths(run: RunSummary, console: Console) -> None:
    if run.pseudo_context is not None:
        head(console, "pseudo-context (imagined by the model: a search key, never evidence)")
        paragraph(console, run.pseudo_context or "(blank)")
    in_rounds = run.looks_up_while_writing  # which are told with their queries
    for path in run.paths.values():
        if in_rounds and not path.before_decision:
            continue
        when = ", searched before the decision" if path.before_decision else ""
        head(console, f"{PATH_NAMES[path.path]} path ({path.retriever}{when})")
        if path.path == "expanded":
            paragraph(console, f"searched for: {path.query_text}")
        print_chunks(path, console)


def _print_reranking(run: RunSummary, reranked: ChunksReranked, console: Console) -> None:
    """The scores of a reranker, best first."""
    calls = f", {reranked.llm_calls} LLM calls" if reranked.llm_calls else ""
    head(console, f"read against {READ_AGAINST[reranked.path]} by {reranked.reranker}{calls}")
    table(console, ("score", "place"), reranked_rows(run, reranked), right=(0,))


def reranked_rows(run: RunSummary, reranked: ChunksReranked) -> list[tuple[str, str]]:
    """Score and place of every chunk that a reranker read, best first."""
    places = {chunk.chunk_id: chunk.location for path in run.paths.values() for chunk in path.chunks}
    pairs = sorted(zip(reranked.scores, reranked.chunk_ids, strict=False), key=lambda pair: -pair[0])
    return [(f"{score:.3f}", places.get(chunk_id, chunk_id)) for score, chunk_id in pairs]


def _print_ranking(run: RunSummary, console: Console) -> None:
    selection = run.selection
    if selection is None or run.looks_up_while_writing:
        return
    notes = [f"score: {selection.score_name}"]
    if selection.query_pseudo_similarity is not None:
        notes.append(f"query to pseudo-context {selection.query_pseudo_similarity:.3f}")
    if selection.query_weight is not None:
        notes.append(f"query weight {selection.query_weight:.3f}")
    head(console, f"ranking ({', '.join(notes)}; angles in degrees)")
    rows = [
        (
            c.rank,
            "yes" if c.kept else "",
            f"{c.query_score:.3f}",
            number(c.pseudo_context_score, 3),
            degrees(c.query_angle),
            degrees(c.pseudo_context_angle),
            number(c.ais_score, 3),
            "+".join(PATH_LETTERS[path] for path in c.paths),
            c.location,
        )
        for c in selection.candidates
    ]
    columns = ("rank", "kept", "s1", "s2", "angle1", "angle2", score_label(selection.score_name), "path", "place")
    table(console, columns, rows, right=(0, 2, 3, 4, 5, 6))


def _print_evidence(run: RunSummary, console: Console) -> None:
    if run.evidence:
        verdict = "the documents tell" if run.evidence.supported else "the documents do not tell"
        head(console, "evidence")
        uncertainty = number(run.evidence.answer_uncertainty, 4) or "undefined"
        paragraph(console, f"{verdict}: {run.evidence.reason} (uncertainty of the answer {uncertainty})")
    if run.sentences:
        head(console, "sentences and the sources that hold their names and numbers")
        rows = [(" ".join(f"[{m}]" for m in s.markers) or "none", s.text) for s in run.sentences]
        table(console, (), rows)


def _print_calls(run: RunSummary, console: Console) -> None:
    rows = call_rows(run)
    if rows:
        which = ", the last of each kind" if run.steps else ""
        head(console, f"model calls, in tokens{which}")
        table(console, ("call", "prompt", "reused", "written", "ended by"), rows, right=(1, 2, 3))


def call_rows(run: RunSummary) -> list[Row]:
    """The model calls: phase, tokens of the prompt, reused, written, and what ended it.

    Of the calls of a phase the last one stands, but for those that write a chain of thought together.
    """
    rows: list[Row] = []
    for phase, writing in run.writings.items():
        calls = [call.writing for call in run.reasoning_calls] if phase == "reasoning" else [writing]
        names = [f"{phase} {number}" for number in range(1, len(calls) + 1)] if len(calls) > 1 else [phase]
        rows += [_call_row(name, call) for name, call in zip(names, calls, strict=True)]
        if run.reasoning_calls and run.sources and writing.prompt and is_conclusion(writing.prompt):
            rows[-1] = (f"{phase} (without the chunks)", *rows[-1][1:])
    return rows


def _call_row(phase: str, writing: Writing) -> Row:
    done = writing.finished
    if done is None:
        return (phase, "", "", len(writing.tokens), "handed in" if writing.is_reused else "cut off")
    return (phase, done.prompt_tokens, done.reused_tokens, done.generated_tokens, _ENDINGS[done.stop_reason])


def _print_times(end: RunFinished, console: Console) -> None:
    head(console, "time")
    rows = [(timing.stage, f"{timing.ms:.0f} ms") for timing in end.timings]
    table(console, (), [*rows, ("total", f"{end.elapsed_ms:.0f} ms")], right=(1,))


def quoted(text: str) -> str:
    """A token in quotes, on one line."""
    return '"' + text.replace("\n", "\\n").replace("\t", "\\t") + '"'


def number(value: float | None, decimals: int) -> str:
    """A number, or nothing where there is none."""
    return "" if value is None else f"{value:.{decimals}f}"


def probability(logprob: float) -> str:
    """The probability of a natural log of it, as `0.607`."""
    return f"{math.exp(min(logprob, 0.0)):.3f}"  # a trace from elsewhere may hold anything


def degrees(angle: float | None) -> str:
    """An angle in radians as degrees."""
    return "" if angle is None else f"{math.degrees(angle):.1f}"
