"""A run in words: the answer on one stream, the talk about it on another.

`RunView` is fed the events of a run as they come, live or from a trace file, so both print the same to the letter.
Text from models and documents is made harmless before it is printed. Tables (`-v`) are in `tables`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, TextIO

from adaptrag_cli.answers import tagged_answer
from adaptrag_cli.events import (
    AgreementMeasured,
    AnswersWeighed,
    Candidate,
    DecisionMade,
    Event,
    GenerationReused,
    Phase,
    PromptBuilt,
    QueryBuilt,
    RankedChunk,
    RunFailed,
    RunFinished,
    RunStarted,
    SentenceCited,
    WarningRaised,
)
from adaptrag_cli.look_ups import is_conclusion, look_ups_in_words, steps_in_words
from adaptrag_cli.run_document import to_document
from adaptrag_cli.run_summary import RunSummary, fold
from adaptrag_cli.terminal import is_plain, printable

_CONSULT = "--strategy always"
DOING: Mapping[Phase, str] = {
    "draft": "drafting an answer from memory",
    "second_draft": "answering from the imagined passage",
    "judge": "asking a judge whether to look it up",
    "pseudo_context": "imagining a passage to search with",
    "rationale": "thinking aloud to widen the question",
    "reasoning": "reasoning towards the answer",
    "search_query": "writing a query",
    "sub_query": "asking what to find out next",
    "intermediate_answer": "answering what was asked",
    "answer": "reading the documents",
}
"""What is being done while a phase is written."""
CONCLUDING = "coming to the answer"
"""And at the end of a chain of thought that did not say it."""
PHASES: Mapping[Phase, str] = {
    "draft": "draft",
    "second_draft": "second draft",
    "judge": "judge",
    "pseudo_context": "pseudo-context",
    "rationale": "rationale",
    "reasoning": "reasoning",
    "search_query": "query",
    "sub_query": "sub-query",
    "intermediate_answer": "intermediate answer",
    "answer": "answer",
}
"""What the text of a phase is called."""
_RULES: Mapping[str, str] = {
    "exact": "normalised exact match",
    "containment": "one answer holds the other",
    "f1": "token F1",
    "cosine": "cosine of their embeddings",
}
_LONGEST_QUERY = 50
"""Of a query, where it is only said that it is looked up."""
_SCORE_LABELS: Mapping[str, str] = {"rerank": "rerank", "expanded": "score"}
# JSON already escapes what is below a space; these would still reach the terminal raw, or cannot be encoded at all.
_HARMFUL_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class RunView:
    """Print a run while it happens.

    Args:
        out: takes the answer, and nothing else.
        err: takes warnings, the decision line, sources and, with `verbose`, the tables.
        as_json: print one JSON document instead of the answer, and without `verbose` no talk but warnings.
    """

    def __init__(self, out: TextIO, err: TextIO, *, verbose: bool = False, as_json: bool = False) -> None:
        self._out = out
        self._err = err
        self._verbose = verbose
        self._as_json = as_json
        self._events: list[Event] = []
        self._status = _StatusLine(err)
        self._answer = _AnswerStream(out)

    def show(self, event: Event) -> None:
        """Print what this event makes known."""
        self._events.append(event)
        match event:
            case PromptBuilt():
                self._status.show(doing(event))
            case QueryBuilt():
                self._status.show(looking_up(event))
            case SentenceCited() if not self._as_json:
                if event.markers:
                    self._status.clear()
                self._answer.add(event)
            case WarningRaised():
                self._say(warning_line(event))
            case RunFinished():
                self._finish(event)
            case RunFailed():
                self.close()

    def note(self, text: str) -> None:
        """Say what is being done, for as long as it lasts; only a terminal sees it."""
        self._status.show(text)

    def close(self) -> None:
        """Leave the terminal at the start of a line. Safe to call twice."""
        self._status.clear()
        self._answer.end_line()

    def _finish(self, end: RunFinished) -> None:
        self._status.clear()
        run = fold(self._events)
        if self._as_json:
            _write_line(self._out, json_text(to_document(run)))
        else:
            self._answer.finish(end.answer)
        if not self._as_json or self._verbose:
            for line in talk_lines(run, verbose=self._verbose):
                self._say(line)
        if self._verbose:
            from adaptrag_cli import tables  # rich is imported only when tables are drawn

            tables.print_tables(run, self._err)

    def _say(self, line: str) -> None:
        self._status.clear()
        _write_line(self._err, dim(printable(line), self._err))


class _StatusLine:
    """One line that is overwritten and leaves no trace."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_wanted = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._is_shown = False

    def show(self, text: str) -> None:
        if self._is_wanted:
            self._write(f"\r\x1b[2K{dim(printable(text) + ' ...', self._stream)}")
            self._is_shown = True

    def clear(self) -> None:
        if self._is_shown:
            self._write("\r\x1b[2K")
            self._is_shown = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class _AnswerStream:
    """The answer, sentence by sentence where its sentences are traced to sources.

    A sentence without a source waits for the next one that has one, or for the whole answer: until then it may be a
    guess that the run does not give.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._waiting: list[str] = []
        self._written = ""
        """What stands on the line that was begun and not ended."""

    def add(self, sentence: SentenceCited) -> None:
        self._waiting.append(sentence.marked_text)
        if sentence.markers:
            text = (" " if self._written else "") + " ".join(self._waiting)
            self._waiting.clear()
            self._written += text
            self._write(text)

    def finish(self, answer: str) -> None:
        """Write what is missing of the answer; one that reads otherwise than what was written gets its own line."""
        if not answer.startswith(self._written):
            self.end_line()
        self._write(f"{answer.removeprefix(self._written)}\n")
        self._written = ""

    def end_line(self) -> None:
        if self._written:
            self._written = ""
            self._write("\n")

    def _write(self, text: str) -> None:
        self._out.write(printable(text, keep_newlines=True))
        self._out.flush()


def _write_line(stream: TextIO, text: str) -> None:
    stream.write(f"{text}\n")
    stream.flush()


def doing(beginning: PromptBuilt | GenerationReused) -> str:
    """What is being done when a text begins to be written."""
    return CONCLUDING if is_conclusion(beginning) else DOING[beginning.phase]


def looking_up(query: QueryBuilt) -> str:
    """What is being done with a query; of a long one, its beginning."""
    words = " ".join(query.text.split())
    return f'looking up "{words if len(words) <= _LONGEST_QUERY else f"{words[:_LONGEST_QUERY]}..."}"'


def dim(text: str, stream: TextIO) -> str:
    """Talk is dimmed where the terminal can, so that the answer stands out."""
    return text if is_plain(stream) else f"\x1b[2m{text}\x1b[0m"


def json_text(document: dict[str, Any]) -> str:
    """Indented JSON that any terminal can show: characters that could control it are escaped."""
    text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    return _HARMFUL_IN_JSON.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def talk_lines(run: RunSummary, *, verbose: bool = False) -> list[str]:
    """What is said of a finished run: the verdict, sources, the chunk that was not consulted."""
    verdict, *notes = verdict_lines(run)
    first = f"{verdict}; {_gpu(run.started)}" if verbose else verdict
    return [first, *notes, *source_lines(run), *([peek_line(run.peek)] if run.peek else [])]


def verdict_lines(run: RunSummary) -> list[str]:
    """The decision, the two answers that it was made from where there are two, and what became of the answer."""
    compared = [agreement_line(run.agreement)] if run.agreement else []
    return [decision_line(run), *compared, *outcome_lines(run)]


def outcome_lines(run: RunSummary) -> list[str]:
    """Why the documents hold no answer and what the guess was, and which answer is given, where that was weighed."""
    lines = []
    if run.evidence and not run.evidence.supported:
        lines.append(f"no answer in the documents: {run.evidence.reason}")
        guess = run.writings.get("answer")
        if guess and guess.text.strip():
            lines.append(f"the guess was: {_parsed(guess.text)}")
    if run.weighing:
        lines.append(weighing_line(run.weighing))
    return lines


def _parsed(text: str) -> str:
    """A text of the model on one line, and without its tags."""
    return " ".join((tagged_answer(text) if "<answer>" in text.lower() else text).split())


def agreement_line(agreement: AgreementMeasured) -> str:
    """Two answers from memory, and how they compare: `"10 pm" and "late": token F1 0.00 < 0.80, they differ`."""
    return f'"{_parsed(agreement.first)}" and "{_parsed(agreement.second)}": {agreement_in_words(agreement)}'


def agreement_in_words(agreement: AgreementMeasured) -> str:
    """The rule, its value against what is needed, and the outcome."""
    rule = _RULES.get(agreement.rule, agreement.rule)
    outcome = "they agree" if agreement.agree else "they differ"
    if agreement.value in {0.0, 1.0} and agreement.limit == 1.0:  # a rule that knows no degrees
        return f"{rule}: {outcome}"
    sign = ">=" if agreement.agree else "<"  # its word counts: rounding may put the value just below
    return f"{rule} {agreement.value:.2f} {sign} {agreement.limit:.2f}: {outcome}"


def weighing_line(weighing: AnswersWeighed) -> str:
    """Both chances, and which answer is given: `chance of being right: draft 0.34, documents 0.61 (given)`."""
    draft, documents = chances(weighing)
    given = " (given)"
    parts = [
        f"{draft}{given if weighing.chosen == 'draft' else ''}",
        f"{documents}{given if weighing.chosen == 'documents' else ''}",
    ]
    if weighing.floor:
        parts.append(f"floor {weighing.floor:.2f}")
    none = ": none is given" if weighing.chosen == "none" else ""
    return f"chance of being right: {', '.join(parts)}{none}"


def chances(weighing: AnswersWeighed) -> tuple[str, str]:
    """Both chances of being right, told apart: `draft 0.34` and `documents 0.61`."""
    draft, documents = weighing.draft_chance, weighing.documents_chance
    decimals = next((n for n in (2, 3, 4) if round(draft, n) != round(documents, n)), 2)
    return f"draft {draft:.{decimals}f}", f"documents {documents:.{decimals}f}"


def source_lines(run: RunSummary) -> list[str]:
    """One line for each of the run's sources, in their order."""
    label, score_name = source_label(run), run.selection.score_name if run.selection else ""
    return [source_line(number, chunk, label, score_name) for number, chunk in enumerate(run.sources, start=1)]


def source_label(run: RunSummary) -> str:
    """What stands before the marker of a source: nothing, unless the chunks were only looked at."""
    return "looked at " if run.evidence and not run.evidence.supported else ""


def decision_line(run: RunSummary) -> str:
    """Whether documents were looked up, why, how, and how long it all took."""
    return f"{verdict(run)} ({_method(run)}) - {seconds(run.total_ms)}"


def verdict(run: RunSummary) -> str:
    """Whether documents were looked up, and why."""
    if any(step.decided for step in run.steps):
        return steps_in_words(run)
    if run.looks_up_while_writing:
        return look_ups_in_words(run)
    decision = run.decision
    looked_up = bool(decision and decision.retrieve)
    head = "looked it up" if looked_up else "answered from the model's memory"
    why = f": {_reason(decision, watches=bool(run.reasoning_calls))}" if decision else ""
    return f"{head}{why}"


def _reason(decision: DecisionMade, *, watches: bool) -> str:
    if decision.uncertainty is None:
        return decision.reason
    if decision.threshold is None:
        return f"{decision.reason}, u = {decision.uncertainty:.2f}"
    sign = ">" if decision.uncertainty > decision.threshold else "<="
    uncertainty, threshold = numbers_apart(decision.uncertainty, decision.threshold)
    if watches:  # a draft has one uncertainty, a text that is watched has many
        return f"{decision.reason}, greatest value {uncertainty}, threshold {threshold}"
    return f"u = {uncertainty} {sign} {threshold}"


def _method(run: RunSummary) -> str:
    if not run.rounds:
        return run.started.strategy
    retrievers = dict.fromkeys(path.retriever for path in run.paths.values())
    count = len(run.sources)
    if run.looks_up_while_writing:
        shares = f"{count} chunk{'' if count == 1 else 's'} read"
    else:
        shares = f"{count} of {len(run.candidates)} chunks"
    return ", ".join((run.started.strategy, *retrievers, shares))


def _gpu(start: RunStarted) -> str:
    """The layers that were asked of the GPU, those it got, and why: `GPU layers auto -> 0: no GPU was found`."""
    return f"GPU layers {start.gpu_layers_requested} -> {start.gpu_layers_used}: {start.gpu_reason}"


def source_line(number: int, chunk: Candidate, label: str = "", score_name: str = "") -> str:
    """One source: its marker, place and scores."""
    return f"{label}[{number}] {chunk.location}  ({scores(chunk, score_name)})"


def score_label(score_name: str) -> str:
    """What the score of a selection is called where there is little room."""
    return _SCORE_LABELS.get(score_name, "AIS")


def scores(chunk: Candidate | RankedChunk, score_name: str = "") -> str:
    """What a chunk scored: `s1 0.80, s2 0.96, AIS 0.12`, or what there is of it.

    `score_name` is that of the selection that the chunk is from.
    """
    if isinstance(chunk, RankedChunk):
        return f"s1 {chunk.score:.2f}"
    parts = [f"s1 {chunk.query_score:.2f}"]
    if chunk.pseudo_context_score is not None:
        parts.append(f"s2 {chunk.pseudo_context_score:.2f}")
    if chunk.ais_score is not None:
        parts.append(f"{score_label(score_name)} {chunk.ais_score:.2f}")
    return ", ".join(parts)


def warning_line(warning: WarningRaised) -> str:
    """A warning as it is told."""
    return f"warning: {warning.message}"


def peek_line(chunk: RankedChunk) -> str:
    """The best chunk of a skipped retrieval, and how to have it consulted."""
    return f"not consulted: {chunk.location} ({scores(chunk)}); to consult it: {_CONSULT}"


def seconds(ms: float) -> str:
    """A duration as people say it."""
    return f"{ms / 1000:.1f} s"


def numbers_apart(left: float, right: float) -> tuple[str, str]:
    """Both numbers with as many decimals (2 to 9) as it takes to tell them apart and to show `right` in full."""
    for decimals in range(2, 10):
        shown = f"{left:.{decimals}f}", f"{right:.{decimals}f}"
        if (shown[0] != shown[1] or left == right) and float(shown[1]) == round(right, 9):
            return shown
    return repr(left), repr(right)
