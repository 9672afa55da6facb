"""What a person is told of look-ups that were made while the answer was being written."""

from __future__ import annotations

import io

import msgspec
import pytest

import traces
from adaptrag_cli.events import (
    DecisionMade,
    Event,
    GenerationFinished,
    LayerLogits,
    PromptBuilt,
    QueryBuilt,
    StepAnswered,
    StepDecided,
    SubQueryAsked,
    WarningRaised,
    WeightedWord,
    WordMeasured,
)
from adaptrag_cli.look_ups import (
    look_ups_in_words,
    named_value,
    probe_rows,
    probe_title,
    query_in_words,
    shares,
    steps_in_words,
    word_in_numbers,
)
from adaptrag_cli.render import RunView, decision_line, doing
from adaptrag_cli.run_summary import fold


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(events: list[Event]) -> str:
    out, err = io.StringIO(), io.StringIO()
    view = RunView(out, err, verbose=True)
    for event in events:
        view.show(event)
    return err.getvalue()


def section(text: str, head: str) -> list[str]:
    """The lines below a heading."""
    return text[text.index(f"\n{head}\n") :].split("\n\n")[0].strip("\n").split("\n")[1:]


def without_words(events: list[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, WordMeasured)]


def test_a_method_that_watches_no_word_gives_its_reasons_once_each():
    events = without_words(traces.looked_up_twice())
    every = [
        msgspec.structs.replace(e, reason="looks up every 16 tokens") if isinstance(e, DecisionMade) else e
        for e in events
    ]
    assert look_ups_in_words(fold(every)) == "looked up 2 times while writing: looks up every 16 tokens"


def test_one_look_up_is_told_as_one():
    events = traces.looked_up_twice()
    second = [n for n, event in enumerate(events) if isinstance(event, DecisionMade)][1]
    told_of = look_ups_in_words(fold(events[:second]))
    assert told_of == 'looked up once while writing: at "22:00" (1.62), threshold 1.00'


def test_many_words_are_counted_after_the_third():
    one = traces.looked_up_twice()[:25]
    events = [*one, *(event for _ in range(4) for event in one[1:])]
    assert look_ups_in_words(fold(events)) == (
        'looked up 5 times while writing: at "22:00" (1.62), "22:00" (1.62), "22:00" (1.62) and 2 more, threshold 1.00'
    )


def test_a_text_that_stands_tells_how_near_it_came():
    events = traces.certain_while_writing()
    near = [msgspec.structs.replace(e, uncertainty=0.994) if isinstance(e, DecisionMade) else e for e in events]
    assert decision_line(fold(near)) == (
        "answered from the model's memory: no word fires, greatest value 0.99, threshold 1.00 (etc) - 1.3 s"
    )


def test_the_chain_of_thought_shows_what_was_discarded_where_it_stood():
    assert section(told(traces.looked_up_twice()), "chain of thought ([-discarded-])") == [
        "  Quiet time starts at[- 22:00.-] 21:30. The quiet ends at[- 6:00, before",
        "  breakfast.-] 7:00. That is nine and a half hours",
    ]
    assert section(told(traces.certain_while_writing()), "chain of thought") == ["  So the answer is nine hours."]


def test_each_look_up_is_told_with_its_word_its_query_and_what_it_found():
    text = told(traces.looked_up_twice())
    assert section(text, 'look-up 1 of 2: entropy turns sharply upwards at "22:00"') == [
        "  kept so far   Quiet time starts at",
        '  word          "22:00" 1.62 against 1.00; entropy 2.30, first difference 1.90,',
        "                second 1.70",
        "  discarded     22:00.",
        "  query         quiet 0.41, time 0.35, starts 0.12 (words chosen by attention)",
        "  then written  21:30. (stands without being watched)",
        "  rank  score  place              heading",
        "     1  9.500  handbook.md:11-19  Handbook > House rules",
        "     2  7.250  handbook.md:31-39  Handbook > House rules",
    ]
    assert "reasoning path" not in text
    assert text.count("handbook.md:31-39") == 2  # the source and the first look-up


def test_every_watched_word_stands_in_a_table_without_empty_columns():
    lines = section(
        told(traces.looked_up_twice()), "words that were watched (entropies in nats; the value against 1.00)"
    )
    assert lines[0].split() == ["call", "entropy", "1st", "diff", "2nd", "diff", "value", "word"]
    assert lines[4].split() == ["1", "2.300", "1.900", "1.700", "1.620", "looked", "up", "22:00"]
    assert len(lines) == 12  # a heading, and 4, 4 and 3 words


def test_each_call_of_a_chain_of_thought_has_its_row():
    lines = section(told(traces.looked_up_twice()), "model calls, in tokens")
    assert [line.split()[:2] for line in lines[1:]] == [
        *(["reasoning", str(number)] for number in range(1, 6)),
        ["answer", "(without"],
    ]
    assert lines[-1].split("  ")[1:2] == ["answer (without the chunks)"]


def test_an_answer_that_reads_chunks_is_not_called_without_them():
    events = [
        msgspec.structs.replace(e, chunk_ids=("handbook.md#1",)) if isinstance(e, PromptBuilt) else e
        for e in traces.looked_up_twice()
    ]
    assert "without the chunks" not in told(events)
    assert "without the chunks" not in told(traces.certain_while_writing())


def test_a_call_is_told_to_have_ended_by_itself_at_a_stop_or_at_its_limit():
    events = traces.looked_up_twice()
    reasons = iter(["stop", "length", "stop", "stop", "end", "end"])
    ended = [
        msgspec.structs.replace(e, stop_reason=next(reasons)) if isinstance(e, GenerationFinished) else e
        for e in events
    ]
    lines = section(told(ended), "model calls, in tokens")
    assert [line.split("  ")[-1] for line in lines[1:]] == [
        "a stop text or sentence",
        "its limit",
        "a stop text or sentence",
        "a stop text or sentence",
        "the model itself",
        "the model itself",
    ]


def test_used_up_look_ups_are_told_with_the_others():
    events = traces.looked_up_twice()
    used_up = WarningRaised(code="look_ups_used_up", message="look-ups are used up (--max-retrievals 2)")
    assert look_ups_in_words(fold([*events[:-1], used_up, events[-1]])) == (
        'looked up 2 times while writing: at "22:00" (1.62) and "6:00" (2.00), threshold 1.00; '
        "then the look-ups were used up"
    )


def test_methods_that_watch_no_word_do_not_say_what_stands_unwatched():
    events = without_words(traces.looked_up_twice())
    assert "without being watched" not in told(events)


def test_a_document_cannot_reach_the_terminal_through_a_query():
    hostile = QueryBuilt(method="attention", text="\x1b[2J", words=(WeightedWord(text="[red]\x1b[2J", weight=0.5),))
    events = [hostile if isinstance(e, QueryBuilt) else e for e in traces.looked_up_twice()]
    text = told(events)
    assert "\x1b" not in text
    assert "[red]\\x1b[2J 0.50" in text


def test_the_status_line_names_the_query_and_the_end():
    out, err = io.StringIO(), Terminal()
    view = RunView(out, err)
    events = traces.looked_up_twice()
    for event in events:
        view.show(event)
    assert 'looking up "quiet time starts" ...' in err.getvalue()
    assert "coming to the answer ..." in err.getvalue()
    assert "reading the documents" not in err.getvalue()


def test_a_long_query_is_cut_on_the_status_line():
    err = Terminal()
    RunView(io.StringIO(), err).show(QueryBuilt(method="tail", text="word\n " * 40))
    shown = err.getvalue()
    assert f'looking up "{"word " * 10}..."' in shown
    assert "\n" not in shown


@pytest.mark.parametrize(
    ("query", "shown", "parts"),
    [
        (QueryBuilt(method="sentence", text="It is late."), "It is late.", []),
        (
            QueryBuilt(method="content_words", text="late night", words=(WeightedWord(text="late"),)),
            "late night",
            [0.0],
        ),
        (
            QueryBuilt(
                method="attention",
                text="late night",
                words=(WeightedWord(text="late", weight=0.5), WeightedWord(text="night", weight=0.125)),
            ),
            "late 0.50, night 0.12",
            [1.0, 0.25],
        ),
    ],
)
def test_a_query_in_words(query: QueryBuilt, shown: str, parts: list[float]):
    assert query_in_words(query) == shown
    assert shares(query) == parts


def test_a_word_tells_only_what_it_has():
    word = WordMeasured(phase="reasoning", first_step=0, step=0, text="late", entropy=0.5)
    assert word_in_numbers(word) == "entropy 0.50"
    rind = msgspec.structs.replace(word, attention=1.5, value=0.75, threshold=0.6)
    assert word_in_numbers(rind) == "0.75 against 0.60; entropy 0.50, attention 1.50"


@pytest.mark.parametrize(
    ("value", "is_absolute", "shown"), [(-1.62, True, "|-1.62|"), (1.62, True, "1.62"), (-1.62, False, "-1.62")]
)
def test_a_drop_that_is_held_against_the_threshold_by_its_size_stands_between_strokes(value, is_absolute, shown):
    word = WordMeasured(
        phase="reasoning",
        first_step=0,
        step=0,
        text="late",
        entropy=0.5,
        value=value,
        threshold=1.0,
        is_absolute=is_absolute,
    )
    assert word_in_numbers(word) == f"{shown} against 1.00; entropy 0.50"
    assert named_value(word) == f'"late" ({shown})'


def test_only_a_prompt_without_chunks_concludes():
    assert doing(PromptBuilt(phase="answer", text="p", tokens=1)) == "coming to the answer"
    assert doing(PromptBuilt(phase="answer", text="p", tokens=1, chunk_ids=("a",))) == "reading the documents"
    assert doing(PromptBuilt(phase="reasoning", text="p", tokens=1)) == "reasoning towards the answer"


def test_what_probers_read_in_rows():
    first, second = fold(traces.probed_twice()).probes
    undefined = msgspec.structs.replace(
        second,
        theta=-0.5,
        rule="probabilities",
        layers=(LayerLogits(layer=8, retrieve=None, stop=0.25),),
        retrieve_score=None,
        stop_score=None,
        retrieve=True,
        is_undefined=True,
    )
    assert probe_rows([first, undefined]) == [
        ("0", "8", "1.500", "0.500", ""),
        ("0", "10", "0.250", "0.500", ""),
        ("0", "sum", "1.750", "1.000", "look it up"),
        ("1", "8", "no number", "0.250", ""),
        ("1", "sum", "no number", "no number", "look it up"),
    ]
    assert probe_title(first) == "what the probers read (logits are added up)"
    assert probe_title(undefined) == "what the probers read (probabilities are added up; theta -0.50)"


def test_steps_are_a_tree_with_decision_chunks_and_answer():
    assert section(told(traces.asked_in_steps()), "steps") == [
        "  When is quiet time?",
        "  +-- 1. When is quiet time?",
        "  |   +-- the model searches (log-odds +1.25)",
        "  |   +-- [1] handbook.md:11-19",
        "  |   +-- [2] handbook.md:31-39",
        "  |   `-- -> 21:30",
        "  +-- 2. Who wakes us?",
        "  |   +-- the model answers from memory (log-odds -2.00)",
        "  |   `-- -> the rooster",
        "  +-- 3. when is quiet time",
        "  |   `-- asked before",
        "  `-- answer: 8 hours",
    ]


def test_the_calls_of_steps_are_told_by_their_last():
    rows = section(told(traces.asked_in_steps()), "model calls, in tokens, the last of each kind")[1:]
    assert [tuple(row.split()[:2]) for row in rows] == [
        ("sub_query", "440"),
        ("intermediate_answer", "434"),
        ("answer", "450"),
    ]


def test_a_look_up_of_a_step_has_its_query_and_chunks():
    assert section(told(traces.asked_in_steps()), "look-up 1 of 1: the model searches") == [
        "  query  When is quiet time? (what the step asks)",
        "  rank  score  place              heading",
        "     1  9.500  handbook.md:11-19  Handbook > House rules",
        "     2  7.250  handbook.md:31-39  Handbook > House rules",
    ]


def test_steps_that_were_cut_off_and_chunks_that_were_not_read():
    events = traces.asked_in_steps()
    answered = next(n for n, event in enumerate(events) if isinstance(event, StepAnswered))
    events[answered] = msgspec.structs.replace(events[answered], text="", chunk_ids=("handbook.md#1",))
    assert section(told([*events[: answered + 4], traces.finished("22:00", "draft")]), "steps") == [
        "  When is quiet time?",
        "  +-- 1. When is quiet time?",
        "  |   +-- the model searches (log-odds +1.25)",
        "  |   +-- [1] handbook.md:11-19",
        "  |   +-- [2] handbook.md:31-39 (not read)",
        "  |   `-- -> (no answer)",
        "  `-- answer: 22:00",
    ]


@pytest.mark.parametrize(
    ("decisions", "words"),
    [
        ([True], "asked 1 question and looked it up"),
        ([False], "asked 1 question and answered from the model's memory"),
        ([True, True], "asked 2 questions and looked all of them up"),
        ([True, False, False], "asked 3 questions and looked up 1 of them"),
    ],
)
def test_steps_in_words(decisions, words):
    events = [
        event
        for step, retrieve in enumerate(decisions)
        for event in (SubQueryAsked(step=step, text="q"), StepDecided(step=step, retrieve=retrieve, reason=""))
    ]
    assert steps_in_words(fold([traces.started("deeprag"), *events])) == words


def test_the_decision_line_of_steps():
    told = decision_line(fold(traces.asked_in_steps()))
    assert told == "asked 2 questions and looked up 1 of them (deeprag, sparse, 2 chunks read) - 3.8 s"
