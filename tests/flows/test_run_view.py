"""What a person sees of a run: the answer on one stream, the talk on the other."""

from __future__ import annotations

import io
import json
import math
import re

import msgspec
import pytest

import traces
from adaptrag_cli.events import (
    AgreementMeasured,
    AnswersWeighed,
    ChunkPeeked,
    DecisionMade,
    DraftOdds,
    Event,
    GenerationFinished,
    SentenceCited,
    TokenGenerated,
    WarningRaised,
)
from adaptrag_cli.render import RunView, agreement_in_words, numbers_apart, weighing_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(events: list[Event], *, stream=io.StringIO, **options: bool) -> tuple[str, str]:
    out, err = stream(), stream()
    view = RunView(out, err, **options)
    for event in events:
        view.show(event)
    view.close()
    return out.getvalue(), err.getvalue()


SOURCES = "[1] handbook.md:11-19  (s1 0.80, s2 0.96, AIS 0.60)\n[2] handbook.md:21-29  (s1 0.60, s2 1.00, AIS 0.60)\n"
VIEWS = {
    "skipped": (
        "10 pm\n",
        "answered from the model's memory: u = 0.02 <= 0.30 (dtr) - 0.8 s\n"
        "not consulted: handbook.md:11-19 (s1 0.71); to consult it: --strategy always\n",
    ),
    "retrieved": (
        "21:30\n",
        "warning: 1 file changed since indexing\n"
        "looked it up: u = 0.57 > 0.30 (dtr, dense, 2 of 3 chunks) - 2.3 s\n" + SOURCES,
    ),
    "always": (
        "21:30\n",
        "looked it up: every question is looked up (always, sparse, 1 of 1 chunks) - 0.9 s\n"
        "[1] handbook.md:11-19  (s1 0.80)\n",
    ),
    "unanswered": (
        "The documents do not tell.\n",
        "looked it up: every question is looked up (always, sparse, 1 of 1 chunks) - 0.9 s\n"
        "no answer in the documents: the answer is a guess: u = 1.20 > 0.80\n"
        "the guess was: 21:30\n"
        "looked at [1] handbook.md:11-19  (s1 0.80)\n",
    ),
    "never": (
        "10 pm\n",
        "answered from the model's memory: this strategy never looks up, u = 0.50 (never) - 0.7 s\n",
    ),
    "blank_draft": (
        "21:30\n",
        "looked it up: uncertainty is undefined: the draft is empty (dtr, dense, 2 of 3 chunks) - 1.9 s\n" + SOURCES,
    ),
    "failed": ("", ""),
    "cited": (
        "Quiet time is 21:30. [1] It ends at 7.\n",
        "looked it up: u = 0.57 > 0.30 (dtr, dense, 2 of 3 chunks) - 2.6 s\n" + SOURCES,
    ),
    "judge": (
        "21:30\n",
        "looked it up: the judge says Yes (llm-judge, dense, 1 of 1 chunks) - 1.3 s\n"
        "[1] handbook.md:11-19  (s1 0.80)\n",
    ),
    "judge_skips": ("10 pm\n", "answered from the model's memory: the judge says No (llm-judge) - 1.1 s\n"),
    "pairs": (
        "21:30\n",
        "looked it up: the answers differ (pairs, dense, 2 of 3 chunks) - 2.8 s\n"
        '"10 pm" and "21:00": normalised exact match: they differ\n' + SOURCES,
    ),
    "pairs_agree": (
        "10 pm\n",
        "answered from the model's memory: both answers agree (pairs) - 2.0 s\n"
        '"10 pm" and "10 pm": normalised exact match: they agree\n',
    ),
    "hyde": (
        "22:30\n",
        "looked it up: every question is looked up (hyde, dense, 1 of 2 chunks) - 1.5 s\n"
        "[1] handbook.md:21-29  (s1 0.60)\n",
    ),
    "thinking_aloud": (
        "21:30\n",
        "looked it up: every question is looked up (cot-expansion, dense, 1 of 1 chunks) - 1.4 s\n"
        "[1] handbook.md:11-19  (s1 0.80)\n",
    ),
    "rerank": (
        "22:30\n",
        "looked it up: every question is looked up (rerank, dense, 1 of 2 chunks) - 0.9 s\n"
        "[1] handbook.md:21-29  (s1 0.60, rerank 2.25)\n",
    ),
    "verify": (
        "21:30\n",
        "looked it up: the documents are likelier right than the draft, u = 0.50 (dtr+verify, dense, 2 of 3 chunks)"
        " - 2.3 s\n"
        "chance of being right: draft 0.34, documents 0.61 (given)\n" + SOURCES,
    ),
    "verify_keeps_the_draft": (
        "10 pm\n",
        "looked it up: the documents are likelier right than the draft, u = 0.50 (dtr+verify, dense, 0 of 3 chunks)"
        " - 2.3 s\n"
        "chance of being right: draft 0.61 (given), documents 0.34\n",
    ),
    "looked_up_twice": (
        "9.5 hours\n",
        'looked up 2 times while writing: at "22:00" (1.62) and "6:00" (2.00), threshold 1.00'
        " (etc, sparse, 3 chunks read) - 6.3 s\n"
        "[1] handbook.md:11-19  (s1 0.60)\n[2] handbook.md:31-39  (s1 0.60)\n[3] handbook.md:21-29  (s1 0.70)\n",
    ),
    "certain_while_writing": (
        "nine hours\n",
        "answered from the model's memory: no word fires (etc) - 1.3 s\n",
    ),
    "probed_twice": (
        "21:30\n",
        "looked up once while writing: the probers say look it up: 1.75 > 1.00 (probing, sparse, 2 chunks read)"
        " - 1.9 s\n"
        "[1] handbook.md:11-19  (s1 0.70)\n[2] handbook.md:31-39  (s1 0.60)\n",
    ),
    "asked_in_steps": (
        "8 hours\n",
        "warning: step 3 asks again what step 1 asked: the steps end here\n"
        "asked 2 questions and looked up 1 of them (deeprag, sparse, 2 chunks read) - 3.8 s\n"
        "[1] handbook.md:11-19  (s1 0.70)\n[2] handbook.md:31-39  (s1 0.60)\n",
    ),
}


@pytest.mark.parametrize("name", traces.ALL)
def test_stdout_is_the_answer_and_stderr_the_talk(name):
    assert shown(traces.ALL[name]()) == VIEWS[name]


FIVE = (
    ("Quiet time is early.", ()),
    ("It starts at 21:30.", (1, 2)),
    ("It is quiet.", ()),
    ("The door closes at 22:30.", (2,)),
    ("Nobody knows why.", ()),
)


def test_a_sentence_is_shown_once_it_or_a_later_one_is_traced_and_stdout_is_the_answer():
    out = io.StringIO()
    view = RunView(out, io.StringIO())
    seen = [""]
    events = traces.cited(*FIVE)
    for event in events:
        view.show(event)
        if seen[-1] != out.getvalue():
            seen.append(out.getvalue())
    assert seen == [
        "",
        "Quiet time is early. It starts at 21:30. [1] [2]",
        "Quiet time is early. It starts at 21:30. [1] [2] It is quiet. The door closes at 22:30. [2]",
        f"{events[-1].answer}\n",
    ]
    assert json.loads(shown(events, as_json=True)[0])["answer"] == events[-1].answer


def test_sentences_without_a_source_are_never_shown_when_the_documents_do_not_tell():
    events = traces.cited(("Quiet time is 21:30.", ()), ("It ends at 7.", ()), supported=False)
    out, err = shown(events)
    assert out == "The documents do not tell.\n"
    assert "no answer in the documents: as judged\n" in err


@pytest.mark.parametrize(
    ("answer", "source"), [("The documents do not tell.", "none"), ("Quiet time is 21:30.\nIt ends at 7.", "documents")]
)
def test_an_answer_that_differs_from_what_was_streamed_gets_its_own_line(answer, source):
    """No run of ours ends so, but a trace from elsewhere may."""
    events = traces.cited()
    events[-1] = msgspec.structs.replace(events[-1], answer=answer, answer_source=source)
    assert shown(events)[0] == f"Quiet time is 21:30. [1]\n{answer}\n"


def test_a_run_that_fails_while_streaming_ends_its_line():
    events = traces.cited()
    cut = next(n for n, e in enumerate(events) if isinstance(e, SentenceCited)) + 2
    failure = msgspec.structs.replace(traces.failed()[-1], seq=cut)
    assert shown([*events[:cut], failure]) == ("Quiet time is 21:30. [1]\n", "")


def test_a_terminal_is_told_what_is_being_done_until_the_first_sentence_is_shown(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    err = Terminal()
    view = RunView(io.StringIO(), err)
    said = {}
    for event in traces.cited(*FIVE[:2]):
        view.show(event)
        if isinstance(event, SentenceCited):
            said[event.text] = err.getvalue().endswith("reading the documents ...")
    assert said == {"Quiet time is early.": True, "It starts at 21:30.": False}


def test_json_is_one_document_and_only_warnings_are_said():
    out, err = shown(traces.retrieved(), as_json=True)
    assert json.loads(out)["answer"] == "21:30"
    assert out.endswith("}\n")
    assert err == "warning: 1 file changed since indexing\n"


def test_json_of_a_failed_run_is_nothing():
    assert shown(traces.failed(), as_json=True) == ("", "")


def test_json_of_a_cited_run_does_not_stream():
    out, _ = shown(traces.cited(), as_json=True)
    assert json.loads(out)["answer"] == "Quiet time is 21:30. [1] It ends at 7."


TABLES = """
settings
  name       value  from
  threshold  0.3    measured for this model
  style      short  default of dtr
  paths      both   default of dtr
  model       qwen2.5-coder-0.5b-instruct
              sha256:0123456789ab
              context 4096 tokens, 2 threads, entropy over the whole vocabulary
  GPU layers  asked auto, got 0: this build of llama.cpp cannot offload
  index       handbook
              g1:0123456789ab

draft (2 tokens, mean_nll u = 0.5700; entropy in nats)
  #  token      p  logprob  entropy  instead of it
  0  "10"   0.566   -0.570    1.250  "At" 0.368  "\\n" 0.125
  1  " pm"  0.566   -0.570    1.250  "At" 0.368  "\\n" 0.125

pseudo-context (imagined by the model: a search key, never evidence)
  Quiet time is late.

query path (dense)
  rank  score  place              heading
     1  0.800  handbook.md:11-19  Handbook > House rules
     2  0.600  handbook.md:31-39  Handbook > House rules

pseudo-context path (dense)
  rank  score  place              heading
     1  0.960  handbook.md:21-29  Handbook > House rules

ranking (score: cos, query to pseudo-context 0.600; angles in degrees)
  rank  kept     s1     s2  angle1  angle2    AIS  path  place
     1  yes   0.800  0.960    36.9    16.3  0.600  q+p   handbook.md:11-19
     2  yes   0.600  1.000    53.1     0.0  0.600  p     handbook.md:21-29
     3        0.600  0.800    53.1    36.9  0.000  q     handbook.md:31-39

evidence
  the documents tell: best s1 = 0.80 (uncertainty of the answer 0.5000)

model calls, in tokens
  call            prompt  reused  written  ended by
  draft               20       4        2  the model itself
  pseudo_context      20       4        4  the model itself
  answer              60       4        2  the model itself

time
  setup     2 ms
  draft   300 ms
  total  2300 ms
"""


def talk_of(name: str) -> str:
    """The talk of `-v`: its decision line also tells the GPU layers."""
    return re.sub(
        r"( - [\d.]+ s)\n", r"\1; GPU layers auto -> 0: this build of llama.cpp cannot offload\n", VIEWS[name][1]
    )


def test_verbose_adds_every_number_in_plain_columns():
    out, err = shown(traces.retrieved(), verbose=True)
    assert (out, err) == (VIEWS["retrieved"][0], talk_of("retrieved") + TABLES)


@pytest.mark.parametrize(
    ("bounds", "numbers", "said"),
    [
        ((0.0, 0.1), (3, 3), "of 3 measured drafts with u in 0.00-0.10, 3 were right (100 %)"),
        ((0.3, 0.6), (1, 21), "of 21 measured drafts with u in 0.30-0.60, 1 was right (5 %)"),
        ((1.5, None), (0, 41), "of 41 measured drafts with u above 1.50, 0 were right (0 %)"),
    ],
)
def test_tables_tell_how_often_such_drafts_were_right(bounds, numbers, said):
    odds = DraftOdds(above=bounds[0], up_to=bounds[1], right=numbers[0], drafts=numbers[1])
    events = [
        msgspec.structs.replace(e, draft_odds=odds) if isinstance(e, DecisionMade) else e for e in traces.retrieved()
    ]
    before = '"At" 0.368  "\\n" 0.125\n\npseudo-context'
    expected = TABLES.replace(before, before.replace("\n\n", f"\n  {said}\n\n"))
    assert said in expected
    assert shown(events, verbose=True)[1] == talk_of("retrieved") + expected


PARTS = {
    "judge": ["what the judge said\n  Yes, look it up\n"],
    "pairs": [
        "two answers without documents\n"
        "  from memory              10 pm\n"
        "  from the pseudo-context  21:00\n"
        "  agreement                normalised exact match: they differ\n",
        "  draft               20       4        3  the model itself\n"
        "  pseudo_context      20       4        4  the model itself\n"
        "  second_draft        20       4        3  the model itself\n"
        "  answer              20       4        3  the model itself\n",
    ],
    "thinking_aloud": [
        "rationale (written by the model to widen the question, never evidence)\n  Quiet time is at night.\n",
        "expanded path (dense)\n  searched for: When is quiet time? When is quiet time? Quiet time is at night.\n",
        "     1  yes   0.800        36.9                 e     handbook.md:11-19\n",
    ],
    "rerank": [
        "read against the question by qwen2.5-coder-0.5b-instruct, 2 LLM calls\n"
        "   score  place\n"
        "   2.250  handbook.md:21-29\n"
        "  -1.500  handbook.md:11-19\n",
        "  rank  kept     s1  s2  angle1  angle2  rerank  path  place\n"
        "     1  yes   0.600        53.1           2.250  q     handbook.md:21-29\n",
    ],
    "probed_twice": [
        "what the probers read (logits are added up)\n"
        "  round  layer  retrieve   stop\n"
        "      0      8     1.500  0.500\n"
        "      0     10     0.250  0.500\n"
        "      0    sum     1.750  1.000  look it up\n"
        "      1      8     0.500  1.250\n"
        "      1     10     0.000  0.500\n"
        "      1    sum     0.500  1.750  stop\n",
    ],
    "verify": [
        "weighing\n  chance of being right: draft 0.34, documents 0.61 (given)\n",
    ],
}


@pytest.mark.parametrize("name", PARTS)
def test_tables_hold_what_a_method_did_beside_drafting_and_searching(name):
    _, err = shown(traces.ALL[name](), verbose=True)
    for part in PARTS[name]:
        assert f"\n{part}" in err


def test_a_search_before_the_decision_is_told_as_such():
    run = [*traces.verify()[:8], traces.finished("10 pm", "draft")]
    _, err = shown(run, verbose=True)
    assert "query path (dense, searched before the decision)\n" in err


@pytest.mark.parametrize(
    ("value", "limit", "agree", "words"),
    [
        (1.0, 1.0, True, "normalised exact match: they agree"),
        (0.0, 1.0, False, "normalised exact match: they differ"),
        (0.5, 0.8, False, "token F1 0.50 < 0.80: they differ"),
        (0.8, 0.8, True, "token F1 0.80 >= 0.80: they agree"),
        (-0.25, 0.8, False, "cosine of their embeddings -0.25 < 0.80: they differ"),
        (0.9999999, 1.0, True, "cosine of their embeddings 1.00 >= 1.00: they agree"),
    ],
)
def test_agreement_in_words(value, limit, agree, words):
    rule = {"nor": "exact", "tok": "f1", "cos": "cosine"}[words[:3]]
    measured = AgreementMeasured(rule=rule, first="a", second="b", value=value, limit=limit, agree=agree)
    assert agreement_in_words(measured) == words


@pytest.mark.parametrize(
    ("draft", "documents", "floor", "chosen", "words"),
    [
        (0.34, 0.61, 0.0, "documents", "draft 0.34, documents 0.61 (given)"),
        (0.614, 0.606, 0.0, "draft", "draft 0.614 (given), documents 0.606"),
        (0.2, 0.1, 0.3, "none", "draft 0.20, documents 0.10, floor 0.30: none is given"),
    ],
)
def test_weighing_in_words(draft, documents, floor, chosen, words):
    weighing = AnswersWeighed(draft_chance=draft, documents_chance=documents, floor=floor, chosen=chosen)
    assert weighing_line(weighing) == f"chance of being right: {words}"


def test_a_guess_between_tags_is_told_without_them():
    events = traces.unanswered()
    at = next(n for n, e in enumerate(events) if isinstance(e, GenerationFinished))
    events[at] = msgspec.structs.replace(events[at], text="<answer>21:30</answer> it is")
    assert "the guess was: 21:30\n" in shown(events)[1]


@pytest.mark.parametrize("name", traces.ALL)
def test_tables_are_plain_ascii_of_80_columns_where_there_is_no_terminal(name):
    _, err = shown(traces.ALL[name](), verbose=True)
    assert err.isascii()
    assert err.startswith(talk_of(name))
    assert max(map(len, err[len(talk_of(name)) :].splitlines()), default=0) <= 80


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_style_reaches_a_terminal_that_wants_none(variable, value, monkeypatch):
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(variable, value)
    _, err = shown(traces.skipped(), stream=Terminal, verbose=True)
    assert "\x1b[2m" not in err
    assert "\x1b[1m" not in err


def test_a_terminal_sees_what_is_being_done_and_no_trace_of_it_afterwards(monkeypatch):
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    erase = "\r\x1b[2K"
    out, err = shown(traces.never(), stream=Terminal)
    assert out == "10 pm\n"
    assert err == (
        f"{erase}\x1b[2mdrafting an answer from memory ...\x1b[0m{erase}\x1b[2m{VIEWS['never'][1].rstrip()}\x1b[0m\n"
    )


def test_a_note_is_for_terminals_only():
    out, err = io.StringIO(), io.StringIO()
    RunView(out, err).note("loading a model")
    assert err.getvalue() == ""


HOSTILE = "\x1b]0;owned\x07[bold]x[/bold]\r\u202e\u2028.md"


def test_escapes_and_markup_from_documents_and_models_are_only_text():
    events = traces.retrieved()

    def poison(event: Event) -> Event:
        changes = {}
        for name in event.__struct_fields__:
            value = getattr(event, name)
            if name in {"text", "message", "reason", "answer", "model", "index", "gpu_reason"}:
                changes[name] = HOSTILE
            elif name in {"chunks", "candidates"}:
                changes[name] = tuple(
                    msgspec.structs.replace(c, location=HOSTILE, title=HOSTILE, document=HOSTILE) for c in value
                )
        return msgspec.structs.replace(event, **changes)

    for options in ({"verbose": True}, {"as_json": True}, {"as_json": True, "verbose": True}):
        out, err = shown([poison(event) for event in events], **options)
        assert not set("\x1b\x07\r\u202e\u2028") & set(out + err)
        assert "[bold]x[/bold]" in out


def test_the_place_of_a_peek_is_only_text():
    peek = next(event for event in traces.skipped() if isinstance(event, ChunkPeeked))
    hostile = msgspec.structs.replace(peek, chunk=msgspec.structs.replace(peek.chunk, location=HOSTILE))
    _, err = shown([hostile if event == peek else event for event in traces.skipped()])
    assert "not consulted: \\x1b]0;owned\\x07[bold]x[/bold]\\x0d\\u202e\\u2028.md (s1 0.71)" in err


def test_a_newline_in_a_warning_cannot_fake_a_line():
    events = traces.stamped([traces.started(), WarningRaised(code="c", message="a\nlooked it up"), traces.failed()[-1]])
    assert shown(events)[1] == "warning: a\\x0alooked it up\n"


def test_impossible_numbers_of_a_foreign_trace_do_not_break_the_tables():
    events = [
        msgspec.structs.replace(e, logprob=1e308) if isinstance(e, TokenGenerated) else e for e in traces.retrieved()
    ]
    assert "1.000" in shown(events, verbose=True)[1]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (0.57, 0.3, ("0.57", "0.30")),
        (0.3, 0.3, ("0.30", "0.30")),
        (0.3004, 0.3, ("0.3004", "0.3000")),
        (0.0012, 0.001, ("0.0012", "0.0010")),
        (0.5, 0.2134, ("0.5000", "0.2134")),
        (math.nextafter(0.3, 1), 0.3, ("0.30000000000000004", "0.3")),
    ],
)
def test_compared_numbers_are_shown_so_that_they_can_be_told_apart(left, right, expected):
    assert numbers_apart(left, right) == expected
