"""A run as one HTML page that a person can mail: no script, nothing fetched, every text of a document escaped.

The words are those of `render` and `tables`; this module arranges them.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import get_args
from xml.etree.ElementTree import Element, tostring

from adaptrag_cli.events import PathName, PathRetrieved, RankedChunk, RunFinished
from adaptrag_cli.html_figures import Child, element, gauge, note, plane, table
from adaptrag_cli.html_reasoning import chain_of_thought, look_up_facts, steps
from adaptrag_cli.html_tokens import Shades, scale, token_spans
from adaptrag_cli.look_ups import PROBE_COLUMNS, probe_rows, probe_title
from adaptrag_cli.pages import GENERATOR
from adaptrag_cli.render import (
    PHASES,
    agreement_line,
    outcome_lines,
    peek_line,
    score_label,
    source_lines,
    verdict_lines,
    warning_line,
)
from adaptrag_cli.run_summary import RunSummary
from adaptrag_cli.tables import (
    READ_AGAINST,
    call_rows,
    degrees,
    number,
    odds_in_words,
    reranked_rows,
)

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_PATH_NAMES: dict[PathName, str] = {
    "query": "Question path",
    "pseudo_context": "Pseudo-context path",
    "expanded": "Expanded path",
    "reasoning": "Reasoning path",
}
_NOT_CONSULTED = "not consulted"


def html_page(run: RunSummary, *, unconsulted: RunSummary | None = None) -> str:
    """Return the page of a run.

    Args:
        run: a run that is over, or as far as it came.
        unconsulted: what would have been looked up after a skipped retrieval; it is shown and labelled.
    """
    shades = Shades()
    looked_up = run if run.was_looked_up or unconsulted is None else unconsulted
    tag: list[Child] = [] if looked_up is run else [" ", element("span", _NOT_CONSULTED, class_="tag")]
    body = element(
        "body",
        *_head(run),
        _section("Answer", *_answer(run)),
        _section("Decision", *_decision(run)),
        *_texts(run, shades),
        _section("Paths", *_paths(looked_up, shades), tag=tag),
        _section("Selection", *_selection(looked_up), tag=tag),
        _section("Cost", *_cost(run)),
        _section("Settings", *_settings(run)),
        _section("Prompts", *_prompts(run)),
        element("footer", f"Made by adaptrag-cli {run.started.adaptrag_version}."),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="generator", content=GENERATOR),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", run.started.query),
        element("style", files("adaptrag_cli").joinpath("html_page.css").read_text("utf-8") + shades.css()),
    )
    return f"<!doctype html>\n{tostring(element('html', head, body), encoding='unicode', method='html')}\n"


def _section(title: str, *content: Child, tag: list[Child] | None = None) -> Element:
    return element("section", element("h2", title, *(tag or [])), *content)


def _head(run: RunSummary) -> Iterator[Element]:
    start = run.started
    yield element("h1", start.query)
    index = f"index {start.index}" if start.index else "no index"
    yield element("p", f"strategy {start.strategy}, model {start.model}, {index}", class_="quiet")
    for warning in run.warnings:
        yield element("p", warning_line(warning), class_="warning")


def _answer(run: RunSummary) -> Iterator[Element]:
    if run.failed:
        yield element("p", f"failed: {run.failed.message}", class_="verdict")
        yield element("p", run.failed.hint)
    elif run.finished is None:
        yield note("The run was not over when this page was made.")
    else:
        yield element("p", run.finished.answer, class_="answer")
        for line in outcome_lines(run):
            yield element("p", line)
        for line, chunk in zip(source_lines(run), run.sources, strict=True):
            yield _unfolding(line, chunk.title, chunk.text)
        if run.peek:
            yield _unfolding(peek_line(run.peek), run.peek.title, run.peek.text)


def _unfolding(summary: Child, title: str, text: str) -> Element:
    """A chunk that opens beneath its line."""
    heading = [element("p", title, class_="note")] if title else []
    return element("details", element("summary", summary), *heading, element("blockquote", text))


def _decision(run: RunSummary) -> Iterator[Element]:
    decision = run.decision
    if decision is None:
        yield note("No decision was made.")
        return
    is_over = run.finished is not None or run.failed is not None
    yield element("p", verdict_lines(run)[0] if is_over else decision.reason, class_="verdict")
    if decision.uncertainty is not None and not run.reasoning_calls:
        yield gauge(decision.uncertainty, decision.threshold)
        yield note(
            "u is the mean of -ln p over the draft's tokens, in nats; documents are looked up when it is greater than "
            "the threshold."
        )
        if decision.draft_odds:
            yield element("p", odds_in_words(decision.draft_odds))
    if run.probes:
        rows = probe_rows(run.probes)
        title = element("summary", probe_title(run.probes[0]))
        yield element("details", title, table(PROBE_COLUMNS, rows, right=(0, 1, 2, 3)))
    judge = run.writings.get("judge")
    if judge is not None:
        yield note("What the judge said:")
        yield element("blockquote", judge.text.strip() or "(blank)")
    if run.agreement:
        yield note("Two answers without documents: from memory, and from the pseudo-context.")
        yield element("p", agreement_line(run.agreement))


def _texts(run: RunSummary, shades: Shades) -> Iterator[Element]:
    """What was written before the answer: a draft, steps, a chain of thought, or that there is none."""
    if run.steps:
        yield _section("Steps", *steps(run))
    if run.reasoning_calls:
        yield _section("Chain of thought", *chain_of_thought(run, shades))
    if not (run.steps or run.reasoning_calls) or "draft" in run.writings:
        yield _section("Draft", *_draft(run, shades))


def _draft(run: RunSummary, shades: Shades) -> Iterator[Element]:
    draft = run.writings.get("draft")
    if draft is None:
        yield note(f"{run.started.strategy} writes no draft.")
        return
    if not draft.tokens:
        yield element("blockquote", draft.text or "(blank)")
        return
    yield note(
        "What the model wrote without documents. Background: entropy of each token, in nats; underlined: weak spans. "
        "Point at a token to see its numbers."
    )
    yield scale(shades)
    yield element("div", *token_spans(draft.tokens, shades), class_="tokens")


def _paths(run: RunSummary, shades: Shades) -> Iterator[Element]:
    rationale = run.writings.get("rationale")
    if rationale is not None:
        yield element("h3", "Rationale")
        yield note("Written by the model to widen the question, never evidence.")
        yield element("blockquote", rationale.text.strip() or "(blank)")
    if run.pseudo_context is not None:
        yield element("h3", "Pseudo-context")
        yield note("Imagined by the model: a search key, never evidence.")
        yield element("blockquote", run.pseudo_context or "(blank)")
    if not run.paths:
        yield note("Nothing was looked up.")
        return
    if run.looks_up_while_writing:
        for number, each in enumerate(run.rounds, start=1):
            yield from look_up_facts(run, number, each, shades)
            yield from (_ranked(chunk, is_shared=False) for path in each.paths.values() for chunk in path.chunks)
        return
    found = [{chunk.chunk_id for chunk in path.chunks} for path in run.paths.values()]
    by_both = found[0] & found[1] if len(found) == 2 else set()
    columns = [_path(run.paths[name], by_both) for name in get_args(PathName) if name in run.paths]
    yield element("div", *columns, class_="paths")


def _path(path: PathRetrieved, by_both: set[str]) -> Element:
    chunks = [_ranked(chunk, is_shared=chunk.chunk_id in by_both) for chunk in path.chunks]
    notes = [note("Searched before the decision.")] if path.before_decision else []
    if path.path == "expanded":
        notes.append(element("details", element("summary", "searched for"), element("blockquote", path.query_text)))
    return element("div", element("h3", f"{_PATH_NAMES[path.path]} ({path.retriever})"), *notes, *chunks)


def _ranked(chunk: RankedChunk, *, is_shared: bool) -> Element:
    mark: list[Child] = [" ", element("span", "both", class_="tag")] if is_shared else []
    line = element("span", f"{chunk.rank}. {chunk.location}  {chunk.score:.3f}", *mark)
    return _unfolding(line, chunk.title, chunk.text)


def _selection(run: RunSummary) -> Iterator[Element]:
    selection = run.selection
    if selection is None:
        yield note("Nothing was selected.")
        return
    if run.looks_up_while_writing:
        yield note("Of the last look-up.")
    for reranked in run.reranking.values():
        yield element("h3", f"Read against {READ_AGAINST[reranked.path]} by {reranked.reranker}")
        yield table(("score", "place"), reranked_rows(run, reranked), right=(0,))
    picture = plane(selection)
    if picture is not None:
        yield picture
        yield note(
            "A chunk stands where its direction falls in the plane of question and pseudo-context; the nearer to the "
            "arc, the better it fits between them. Filled: kept. Hollow: left out."
        )
    rows = [
        (
            str(c.rank),
            "yes" if c.kept else "",
            f"{c.query_score:.3f}",
            number(c.pseudo_context_score, 3),
            degrees(c.query_angle),
            degrees(c.pseudo_context_angle),
            number(c.ais_score, 3),
            c.location,
        )
        for c in selection.candidates
    ]
    label = score_label(selection.score_name)
    score = label if label == selection.score_name else f"{label} ({selection.score_name})"
    columns = ("rank", "kept", "s1", "s2", "theta1 °", "theta2 °", score, "place")
    yield table(columns, rows, right=(0, 2, 3, 4, 5, 6))
    if selection.query_weight is not None:
        yield note(f"Weight of the question: {selection.query_weight:.3f}.")


def _cost(run: RunSummary) -> Iterator[Element]:
    calls = call_rows(run)
    if run.finished:
        counts = run.finished.counts
        yield element("p", f"LLM calls: {counts.llm_calls:,}. Searches: {counts.searches:,}.")
    if calls:
        cells = [[str(value) for value in row] for row in calls]
        yield table(("call", "prompt tokens", "reused", "written", "ended by"), cells, right=(1, 2, 3))
    if run.finished:
        yield _times(run.finished)


def _times(end: RunFinished) -> Element:
    longest = max((timing.ms for timing in end.timings), default=0.0) or 1.0
    rows: list[tuple[Child, ...]] = [
        (
            timing.stage.replace("_", " "),
            f"{timing.ms:,.0f} ms",
            element("span", element("span", style=f"width: {100 * timing.ms / longest:.1f}%"), class_="stage"),
        )
        for timing in end.timings
    ]
    return table(("stage", "time", ""), [*rows, ("total", f"{end.elapsed_ms:,.0f} ms", "")], right=(1,))


def _settings(run: RunSummary) -> Iterator[Element]:
    start = run.started
    values = [(s.name, "" if s.value is None else str(s.value), s.origin) for s in start.settings]
    yield table(("name", "value", "from"), values)
    facts = [
        ("model fingerprint", start.model_fingerprint),
        ("index fingerprint", start.index_fingerprint or "none"),
        ("GPU layers", f"{start.gpu_layers_used} of {start.gpu_layers_requested}: {start.gpu_reason}"),
        ("threads", str(start.threads)),
        ("context", f"{start.context_length:,} tokens"),
        ("entropy", "over the whole vocabulary" if start.entropy_support == "full" else "over the best tokens only"),
    ]
    yield table(("", ""), facts)


def _prompts(run: RunSummary) -> Iterator[Element]:
    others = (writing for phase, writing in run.writings.items() if phase != "reasoning")
    prompts = [writing.prompt for writing in (*(call.writing for call in run.reasoning_calls), *others)]
    if not any(prompts):
        yield note("No model was asked.")
    for prompt in prompts:
        if prompt is not None:
            summary = element("summary", f"{PHASES[prompt.phase]}: {prompt.tokens:,} tokens")
            yield element("details", summary, element("pre", prompt.text))
