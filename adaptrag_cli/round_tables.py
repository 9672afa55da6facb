"""The tables of a method that looks up while it writes: its chain of thought or steps, every look-up, watched words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adaptrag_cli.events import PathRetrieved
from adaptrag_cli.look_ups import (
    PROBE_COLUMNS,
    chunks_of_step,
    decision_of_step,
    probe_rows,
    probe_title,
    query_in_words,
    query_method,
    round_title,
    word_in_numbers,
)
from adaptrag_cli.run_summary import Round, RunSummary, Step
from adaptrag_cli.table_layout import Row, head, paragraph, table, tree

if TYPE_CHECKING:
    from rich.console import Console


def print_reasoning(run: RunSummary, console: Console) -> None:
    """Print the chain of thought, and where it looks up while it is written, each look-up and the watched words.

    Of a method that asks in steps, print the tree of its steps.
    """
    if run.reasoning_calls:
        _print_text(run, console)
    if run.steps:
        _print_steps(run, console)
    if run.looks_up_while_writing:
        for number, each in enumerate(run.rounds, start=1):
            _print_round(run, number, each, console)
    _print_words(run, console)


def print_probes(run: RunSummary, console: Console) -> None:
    """Print what probers read from the model's states, round by round."""
    if run.probes:
        head(console, probe_title(run.probes[0]))
        table(console, PROBE_COLUMNS, probe_rows(run.probes), right=(0, 1, 2, 3))


def print_chunks(path: PathRetrieved, console: Console) -> None:
    """Print what a search found."""
    rows = [(c.rank, f"{c.score:.3f}", c.location, c.title) for c in path.chunks]
    table(console, ("rank", "score", "place", "heading"), rows, right=(0, 1), folded=(2, 3))


def _print_text(run: RunSummary, console: Console) -> None:
    """The whole text, with what was discarded where it stood."""
    is_cut = any(call.discarded for call in run.reasoning_calls)
    head(console, f"chain of thought{' ([-discarded-])' if is_cut else ''}")
    parts: list[str | tuple[str, str]] = []
    for call in run.reasoning_calls:
        parts.append(call.kept)
        if call.discarded:
            parts.append((f"[-{call.discarded}-]", "dim strike"))
    paragraph(console, *parts)


def _print_steps(run: RunSummary, console: Console) -> None:
    """Each step with its decision, what it found and its answer, and the answer that the steps came to."""
    head(console, "steps")
    branches = [_branch(run, number, step) for number, step in enumerate(run.steps, start=1)]
    end = [(f"answer: {run.finished.answer}", ())] if run.finished else []
    tree(console, run.started.query, [*branches, *end])


def _branch(run: RunSummary, number: int, step: Step) -> tuple[str, tuple[str, ...]]:
    leaves = [decision_of_step(step)]
    leaves += [
        f"[{chunk.rank}] {chunk.location}{'' if is_read else ' (not read)'}"
        for chunk, is_read in chunks_of_step(run, step)
    ]
    if step.answered:
        leaves.append(f"-> {step.answered.text or '(no answer)'}")
    return f"{number}. {step.asked.text}", tuple(leaves)


def _print_round(run: RunSummary, number: int, each: Round, console: Console) -> None:
    head(console, round_title(run, number, each))
    is_written_by_steps = bool(run.steps) and not each.kept
    rows: list[Row] = [] if is_written_by_steps else [("kept so far", each.kept.strip() or "(nothing)")]
    if each.word:
        rows.append(("word", f'"{each.word.text}" {word_in_numbers(each.word)}'))
    if each.discarded:
        rows.append(("discarded", " ".join(each.discarded.split())))
    if each.query:
        rows.append(("query", f"{query_in_words(each.query)} ({query_method(each.query)})"))
    written = run.unwatched_after(each)
    if written is not None:
        rows.append(("then written", f"{' '.join(written.kept.split()) or '(nothing)'} (stands without being watched)"))
    table(console, (), rows)
    for path in each.paths.values():
        print_chunks(path, console)


def _print_words(run: RunSummary, console: Console) -> None:
    """Every word that was watched; a column without a number is left out."""
    words = [(number, word) for number, call in enumerate(run.reasoning_calls, start=1) for word in call.words]
    if not words:
        return
    last = next((word for _, word in reversed(words) if word.threshold is not None), None)
    value = "|value|" if last and last.is_absolute else "the value"
    against = "" if last is None else f"; {value} against {last.threshold:.2f}"
    head(console, f"words that were watched (entropies in nats{against})")
    names = ("entropy", "first_difference", "second_difference", "attention", "value")
    used = [name for name in names if any(getattr(word, name) is not None for _, word in words)]
    rows = [
        (
            number,
            *("" if (value := getattr(word, name)) is None else f"{value:.3f}" for name in used),
            "looked up" if word.fires else "",
            word.text,
        )
        for number, word in words
    ]
    labels = {"first_difference": "1st diff", "second_difference": "2nd diff"}
    columns = ("call", *(labels.get(name, name) for name in used), "", "word")
    table(console, columns, rows, right=range(len(used) + 1))
