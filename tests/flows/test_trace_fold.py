"""Traces on disk, the fold of a trace, and the document of `--json`."""

from __future__ import annotations

import gzip
import json
import math
import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traces
from adaptrag_cli.errors import AdaptRAGError, ConfigError
from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    DraftOdds,
    GenerationReused,
    QueryBuilt,
    RunStarted,
    StepAnswered,
    StepDecided,
    TokenGenerated,
    TokensDiscarded,
    WarningRaised,
    decode_event,
    encode_event,
)
from adaptrag_cli.render import json_text
from adaptrag_cli.run_document import to_document
from adaptrag_cli.run_summary import fold
from adaptrag_cli.trace import TraceWriter, read_trace

DOCUMENT_NAMES = [
    "query",
    "strategy",
    "model",
    "index",
    "answer",
    "answer_source",
    "decision",
    "draft",
    "pseudo_context",
    "reasoning",
    "reasoning_calls",
    "steps",
    "rounds",
    "probes",
    "phases",
    "agreement",
    "paths",
    "reranking",
    "selected",
    "candidates",
    "peek",
    "sentences",
    "evidence",
    "weighing",
    "counts",
    "timings_ms",
    "warnings",
]
FINISHED = [name for name in traces.ALL if name != "failed"]


def write(path: Path, events) -> Path:
    with TraceWriter(path) as writer:
        for event in events:
            writer.write(event)
    return path


# --- the fold


def test_a_skipped_run_folds_into_draft_decision_and_peek():
    run = fold(traces.skipped())
    assert run.writings["draft"].text == "10 pm"
    assert [token.text for token in run.writings["draft"].tokens] == ["10", " pm"]
    assert run.uncertainty.value == 0.02
    assert not run.decision.retrieve
    assert run.peek.location == "handbook.md:11-19"
    assert (run.candidates, run.sources, run.paths, run.pseudo_context) == ((), (), {}, None)
    assert run.total_ms == 800.0  # nine events, the first at 0 ms


def test_a_retrieved_run_folds_into_paths_candidates_and_sources():
    run = fold(traces.retrieved())
    assert run.pseudo_context == "Quiet time is late."
    assert [chunk.chunk_id for chunk in run.paths["query"].chunks] == ["handbook.md#1", "handbook.md#3"]
    assert [chunk.chunk_id for chunk in run.candidates] == ["handbook.md#1", "handbook.md#2", "handbook.md#3"]
    assert [chunk.chunk_id for chunk in run.selected] == ["handbook.md#1", "handbook.md#2"]
    assert run.sources == run.selected
    assert run.writings["answer"].prompt.chunk_ids == traces.KEPT
    assert [warning.code for warning in run.warnings] == ["index_not_fresh"]


def test_sources_are_the_consulted_chunks_not_all_the_selected_ones():
    """The prompt had room for one chunk of the two that were kept."""
    events = traces.retrieved()
    events[-1] = msgspec.structs.replace(events[-1], chunk_ids=("handbook.md#2",))
    assert [chunk.chunk_id for chunk in fold(events).sources] == ["handbook.md#2"]


def test_a_run_that_was_cut_off_folds_into_what_there_was():
    run = fold(traces.retrieved()[:4])
    assert run.writings["draft"].text == "10"
    assert run.writings["draft"].finished is None
    assert (run.decision, run.finished, run.failed, run.total_ms) == (None, None, None, 0.0)


def test_a_text_that_was_handed_in_is_not_written_twice():
    tokens = [TokenGenerated(phase="draft", step=n, text=t, logprob=-0.1, entropy=0.2) for n, t in enumerate("ab")]
    draft = fold([traces.started(), GenerationReused(phase="draft", text="ab"), *tokens]).writings["draft"]
    assert (draft.text, len(draft.tokens), draft.is_reused, draft.prompt) == ("ab", 2, True, None)


def test_a_second_call_of_a_phase_replaces_the_first():
    run = fold([traces.started(), *traces.written("draft", "one"), *traces.written("draft", "two")])
    assert (run.writings["draft"].text, len(run.writings["draft"].tokens)) == ("two", 1)


def test_a_fold_starts_with_run_started():
    with pytest.raises(ValueError, match="a run starts with run_started"):
        fold(traces.skipped()[1:])


# --- rounds of methods that look up while they write


def test_a_look_up_while_writing_is_a_round_with_all_that_led_to_it():
    run = fold(traces.looked_up_twice())
    first, second = run.rounds
    assert (first.kept, first.discarded) == ("Quiet time starts at", " 22:00.")
    assert (first.word.text, first.word.value, first.decision.uncertainty) == ("22:00", 1.62, 1.62)
    assert (first.query.method, first.query.text) == ("attention", "quiet time starts")
    assert [chunk.chunk_id for chunk in first.paths["reasoning"].chunks] == ["handbook.md#1", "handbook.md#3"]
    assert [chunk.chunk_id for chunk in first.selection.candidates] == ["handbook.md#1", "handbook.md#3"]
    assert second.kept == "Quiet time starts at 21:30. The quiet ends at"
    assert (second.discarded, second.word.text) == (" 6:00, before breakfast.", "6:00")
    assert [chunk.chunk_id for chunk in second.paths["reasoning"].chunks] == ["handbook.md#2", "handbook.md#1"]
    assert (first.calls, second.calls) == (1, 3)
    assert run.looks_up_while_writing and run.was_looked_up


def test_the_chain_of_thought_is_what_the_calls_kept():
    run = fold(traces.looked_up_twice())
    assert run.reasoning == "Quiet time starts at 21:30. The quiet ends at 7:00. That is nine and a half hours"
    assert [call.kept for call in run.reasoning_calls] == [
        "Quiet time starts at",
        " 21:30.",
        " The quiet ends at",
        " 7:00.",
        " That is nine and a half hours",
    ]
    assert [call.cut for call in run.reasoning_calls] == [4, None, 4, None, None]
    assert [word.text for word in run.reasoning_calls[2].words] == ["quiet", "ends", "6:00", "breakfast"]
    assert run.writings["reasoning"].text == " That is nine and a half hours"  # of several calls the last


def test_a_look_up_for_the_question_is_a_round_without_a_query():
    run = fold(traces.retrieved())
    (only,) = run.rounds
    assert (only.query, only.kept, only.word, list(only.paths)) == (None, "", None, ["query", "pseudo_context"])
    assert not run.looks_up_while_writing
    assert fold(traces.skipped()).rounds == ()


def test_what_is_discarded_after_the_decision_belongs_to_its_round():
    events = traces.looked_up_twice()
    cut = next(number for number, event in enumerate(events) if isinstance(event, TokensDiscarded))
    events[cut], events[cut + 1] = events[cut + 1], events[cut]
    assert fold(events).rounds == fold(traces.looked_up_twice()).rounds


def test_each_query_of_one_decision_is_a_round():
    events = traces.looked_up_twice()
    at = next(number for number, event in enumerate(events) if isinstance(event, ChunksSelected)) + 1
    run = fold([*events[:at], QueryBuilt(method="question", text="When?"), *events[at:]])
    assert [each.query.text for each in run.rounds] == ["quiet time starts", "When?", "quiet ends"]
    assert (run.rounds[1].kept, run.rounds[1].paths) == (run.rounds[0].kept, {})
    assert run.rounds[1].decision == run.rounds[0].decision


def test_each_round_of_a_probed_run_keeps_what_was_written_probed_and_found():
    run = fold(traces.probed_twice())
    (only,) = run.rounds
    first, second = run.probes
    assert (only.probe, only.probe.round, second.round) == (first, 0, 1)
    assert [(layer.layer, layer.retrieve, layer.stop) for layer in first.layers] == [(8, 1.5, 0.5), (10, 0.25, 0.5)]
    assert (only.kept, only.discarded) == ("", " It is late.\nAnswer: 22:00")
    assert (only.query.method, [c.chunk_id for c in only.selection.candidates]) == (
        "rationale",
        ["handbook.md#1", "handbook.md#3"],
    )
    assert [(call.kept, call.discarded) for call in run.reasoning_calls] == [
        ("", " It is late.\nAnswer: 22:00"),
        (" It starts at 21:30.\nAnswer: 21:30", ""),
    ]
    assert run.reasoning == " It starts at 21:30.\nAnswer: 21:30"


def test_a_narrative_folds_into_its_steps_with_their_look_ups():
    run = fold(traces.asked_in_steps())
    first, second, third = run.steps
    assert [step.asked.text for step in run.steps] == ["When is quiet time?", "Who wakes us?", "when is quiet time"]
    assert [step.decided.retrieve for step in (first, second)] == [True, False]
    assert [step.decided.log_odds for step in (first, second)] == [1.25, -2.0]
    assert [step.answered.text for step in (first, second)] == ["21:30", "the rooster"]
    assert run.round_of(first).query.text == "When is quiet time?"
    assert [c.chunk_id for c in run.round_of(first).selection.candidates] == ["handbook.md#1", "handbook.md#3"]
    assert (second.round, run.round_of(second)) == (None, None)
    assert (third.asked.is_repeated, third.decided, third.answered) == (True, None, None)


def test_what_belongs_to_a_step_is_passed_over_where_no_step_began():
    begun, *_ = traces.asked_in_steps()
    run = fold([begun, StepDecided(step=0, retrieve=False, reason=""), StepAnswered(step=0, text="", retrieved=False)])
    assert run.steps == ()


def test_a_decision_that_was_not_measured_has_no_odds_and_cost_no_call():
    assert StepDecided(step=0, retrieve=True, reason="").log_odds is None
    assert StepDecided(step=0, retrieve=True, reason="").llm_calls == 0
    measured = StepDecided(step=0, retrieve=True, reason="", answer_logprob=-2.0, search_logprob=-0.5)
    assert (measured.log_odds, measured.llm_calls) == (1.5, 1)


# --- the document of --json


@pytest.mark.parametrize("name", FINISHED)
def test_every_document_has_exactly_the_documented_names(name):
    document = to_document(fold(traces.ALL[name]()))
    assert list(document) == DOCUMENT_NAMES
    assert list(document["decision"]) == ["retrieve", "uncertainty", "threshold", "reason", "draft_odds"]
    assert list(document["paths"]) == ["query", "pseudo_context", "expanded", "reasoning"]
    assert list(document["counts"]) == [
        "llm_calls",
        "searches",
        "prompt_tokens",
        "reused_tokens",
        "generated_tokens",
    ]
    assert json.loads(json_text(document)) == document


def test_the_document_of_a_retrieved_run():
    document = to_document(fold(traces.retrieved()))
    first = {
        "chunk_id": "handbook.md#1",
        "document": "handbook.md",
        "location": "handbook.md:11-19",
        "text": "Text of chunk 1: quiet time starts at 21:30.",
        "query_score": 0.8,
        "pseudo_context_score": 0.96,
        "ais_score": pytest.approx(0.6),  # .8 x .96 - .6 x .28
        "rank": 1,
    }
    assert document["selected"][0] == first
    assert document["candidates"][0] == first | {
        "title": "Handbook > House rules",
        "paths": ["query", "pseudo_context"],
        "query_angle": math.acos(0.8),
        "pseudo_context_angle": math.acos(0.96),
        "kept": True,
    }
    assert [chunk["rank"] for chunk in document["candidates"]] == [1, 2, 3]
    assert document["paths"]["pseudo_context"] == [
        {
            "chunk_id": "handbook.md#2",
            "document": "handbook.md",
            "location": "handbook.md:21-29",
            "rank": 1,
            "score": 0.96,
        }
    ]
    assert document["draft"] == {
        "text": "10 pm",
        "tokens": [
            {"text": "10", "logprob": -0.57, "entropy": 1.25},
            {"text": " pm", "logprob": -0.57, "entropy": 1.25},
        ],
    }
    assert document["pseudo_context"]["text"] == "Quiet time is late."
    assert document["decision"] == {
        "retrieve": True,
        "uncertainty": 0.57,
        "threshold": 0.3,
        "reason": "the draft is uncertain",
        "draft_odds": None,
    }
    assert (document["answer"], document["answer_source"]) == ("21:30", "documents")
    assert document["timings_ms"] == {"setup": 1.5, "draft": 300.0, "total": 2300.0}
    assert document["warnings"] == [{"code": "index_not_fresh", "message": "1 file changed since indexing"}]
    assert document["peek"] is None


def test_the_document_of_a_skipped_run_has_a_peek_and_nothing_retrieved():
    document = to_document(fold(traces.skipped()))
    assert document["peek"] == {
        "chunk_id": "handbook.md#1",
        "document": "handbook.md",
        "location": "handbook.md:11-19",
        "score": 0.71,
    }
    assert document["pseudo_context"] is None
    assert (document["selected"], document["candidates"]) == ([], [])
    assert document["paths"] == {"query": [], "pseudo_context": [], "expanded": [], "reasoning": []}


def test_the_probes_of_a_document():
    document = to_document(fold(traces.probed_twice()))
    first = {
        "round": 0,
        "retrieve_score": 1.75,
        "stop_score": 1.0,
        "theta": 0.0,
        "rule": "logits",
        "retrieve": True,
        "is_undefined": False,
        "layers": [
            {"layer": 8, "retrieve": 1.5, "stop": 0.5},
            {"layer": 10, "retrieve": 0.25, "stop": 0.5},
        ],
    }
    assert document["probes"][0] == document["rounds"][0]["probe"] == first
    assert [probe["round"] for probe in document["probes"]] == [0, 1]


def test_the_steps_of_a_document():
    document = to_document(fold(traces.asked_in_steps()))
    assert document["steps"][0] == {
        "sub_query": "When is quiet time?",
        "is_repeated": False,
        "decision": {
            "retrieve": True,
            "reason": "the model searches",
            "answer_logprob": -1.5,
            "search_logprob": -0.25,
            "log_odds": 1.25,
        },
        "answer": {"text": "21:30", "chunk_ids": ["handbook.md#1", "handbook.md#3"], "retrieved": True},
        "round": 0,
    }
    assert [(step["is_repeated"], step["decision"] is None, step["round"]) for step in document["steps"][1:]] == [
        (False, False, None),
        (True, True, None),
    ]
    assert document["answer"] == "8 hours"


def test_the_rounds_of_a_document():
    document = to_document(fold(traces.looked_up_twice()))
    word = {
        "text": "22:00",
        "entropy": 2.3,
        "first_difference": 1.9,
        "second_difference": 1.7,
        "attention": None,
        "value": 1.62,
        "threshold": 1.0,
        "fires": True,
    }
    assert document["rounds"][0] == {
        "decision": {
            "retrieve": True,
            "uncertainty": 1.62,
            "threshold": 1.0,
            "reason": 'entropy turns sharply upwards at "22:00"',
        },
        "kept": "Quiet time starts at",
        "word": word,
        "discarded": " 22:00.",
        "probe": None,
        "query": {
            "method": "attention",
            "text": "quiet time starts",
            "words": [
                {"text": "quiet", "weight": 0.41},
                {"text": "time", "weight": 0.35},
                {"text": "starts", "weight": 0.12},
            ],
        },
        "paths": {
            "reasoning": [
                {
                    "chunk_id": "handbook.md#1",
                    "document": "handbook.md",
                    "location": "handbook.md:11-19",
                    "rank": 1,
                    "score": 9.5,
                },
                {
                    "chunk_id": "handbook.md#3",
                    "document": "handbook.md",
                    "location": "handbook.md:31-39",
                    "rank": 2,
                    "score": 7.25,
                },
            ]
        },
        "selected": ["handbook.md#1", "handbook.md#3"],
    }
    assert document["reasoning"] == "Quiet time starts at 21:30. The quiet ends at 7:00. That is nine and a half hours"
    call = document["reasoning_calls"][0]
    assert (call["kept"], call["discarded"], call["reason"]) == (
        "Quiet time starts at",
        " 22:00.",
        'entropy turns sharply upwards at "22:00"',
    )
    assert (len(call["words"]), call["words"][3]) == (4, word)
    assert document["answer"] == "9.5 hours"


def test_a_blank_draft_has_null_uncertainty_and_its_reason():
    decision = to_document(fold(traces.blank_draft()))["decision"]
    assert decision == {
        "retrieve": True,
        "uncertainty": None,
        "threshold": 0.3,
        "reason": "uncertainty is undefined: the draft is empty",
        "draft_odds": None,
    }


def test_measured_odds_of_the_draft_stand_in_the_decision():
    odds = DraftOdds(above=0.3, up_to=None, right=2, drafts=20)
    events = [
        msgspec.structs.replace(e, draft_odds=odds) if isinstance(e, DecisionMade) else e for e in traces.retrieved()
    ]
    decision = to_document(fold(events))["decision"]
    assert decision["draft_odds"] == {"above": 0.3, "up_to": None, "right": 2, "drafts": 20}


def test_cited_sentences_stand_in_the_document_with_their_sources():
    assert to_document(fold(traces.cited()))["sentences"] == [
        {"text": "Quiet time is 21:30.", "chunk_ids": ["handbook.md#1"], "markers": [1]},
        {"text": "It ends at 7.", "chunk_ids": [], "markers": []},
    ]


def test_every_call_stands_in_the_document_in_the_order_of_the_run():
    phases = to_document(fold(traces.pairs()))["phases"]
    assert list(phases) == ["draft", "pseudo_context", "second_draft", "answer"]
    assert phases["second_draft"] == {
        "text": "<answer>21:00</answer>",
        "is_reused": False,
        "prompt_tokens": 20,
        "reused_tokens": 4,
        "generated_tokens": 3,
        "stop_reason": "end",
    }


def test_a_text_that_was_handed_in_has_no_numbers_of_a_call():
    events = traces.skipped()
    reused = [GenerationReused(phase="draft", text="10 pm"), *events[2:4]]
    phases = to_document(fold([events[0], *reused, *events[5:]]))["phases"]
    assert phases == {
        "draft": {
            "text": "10 pm",
            "is_reused": True,
            "prompt_tokens": None,
            "reused_tokens": None,
            "generated_tokens": None,
            "stop_reason": None,
        }
    }


def test_agreement_reranking_and_weighing_stand_in_the_document():
    assert to_document(fold(traces.pairs()))["agreement"] == {
        "rule": "exact",
        "first": "10 pm",
        "second": "21:00",
        "value": 0.0,
        "limit": 1.0,
        "agree": False,
    }
    assert to_document(fold(traces.rerank()))["reranking"] == [
        {
            "reranker": "qwen2.5-coder-0.5b-instruct",
            "path": "query",
            "llm_calls": 2,
            "chunks": [{"chunk_id": "handbook.md#1", "score": -1.5}, {"chunk_id": "handbook.md#2", "score": 2.25}],
        }
    ]
    assert to_document(fold(traces.verify()))["weighing"] == {
        "draft_chance": 0.34,
        "documents_chance": 0.61,
        "floor": 0.0,
        "chosen": "documents",
    }
    document = to_document(fold(traces.retrieved()))
    assert (document["agreement"], document["reranking"], document["weighing"]) == (None, [], None)


@pytest.mark.parametrize(
    ("run", "was_looked_up"),
    [
        (traces.retrieved(), True),
        (traces.hyde(), True),
        (traces.skipped(), False),
        (traces.verify()[:8], False),  # searched before the decision
        (traces.verify()[:16], True),
    ],
)
def test_a_search_that_only_helped_to_decide_is_no_look_up(run, was_looked_up):
    assert fold(run).was_looked_up is was_looked_up


def test_a_failed_run_has_no_document():
    with pytest.raises(ValueError, match="only a finished run"):
        to_document(fold(traces.failed()))


@given(
    text=st.text(), extra=st.sampled_from(["\x1b[2J", "\x9b", "\x7f", "\u202e", "\ud800", "\x00", "\u2028", "\u2029"])
)
def test_json_is_harmless_to_a_terminal_and_says_the_same(text: str, extra: str):
    document = {"answer": text + extra + "."}
    shown = json_text(document)
    assert json.loads(shown) == document
    assert not set("\x1b\x9b\x7f\u202e\ud800\x00\u2028\u2029") & set(shown)


# --- files


@pytest.mark.parametrize("name", traces.ALL)
def test_a_trace_reads_back_as_it_was_written(name, tmp_path):
    events = traces.ALL[name]()
    path = write(tmp_path / "run.jsonl", events)
    assert list(read_trace(path)) == events
    assert path.read_bytes().count(b"\n") == len(events)


@pytest.mark.parametrize("name", traces.ALL)
def test_a_compressed_trace_reads_back_as_it_was_written(name, tmp_path):
    events = traces.ALL[name]()
    path = write(tmp_path / "run.jsonl.gz", events)
    assert gzip.decompress(path.read_bytes()) == b"".join(encode_event(event) + b"\n" for event in events)
    assert list(read_trace(path)) == events
    assert path.read_bytes() == write(tmp_path / "again.gz", events).read_bytes()


def test_a_compressed_trace_is_known_by_what_it_holds(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(write(tmp_path / "run.gz", traces.skipped()).read_bytes())
    assert list(read_trace(path)) == traces.skipped()


def test_an_earlier_compressed_trace_is_replaced_and_other_compressed_files_are_not(tmp_path):
    path = write(tmp_path / "run.jsonl.gz", traces.retrieved())
    assert list(read_trace(write(path, traces.skipped()))) == traces.skipped()
    for content in (gzip.compress(b"# Handbook"), gzip.compress(b"# Handbook")[:12], b"\x1f\x8b no gzip"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="is not a trace, so it is not overwritten"):
            TraceWriter(path)
        assert path.read_bytes() == content


def test_what_a_killed_run_wrote_compressed_is_read_to_its_last_event(tmp_path):
    events = traces.skipped()
    path = tmp_path / "run.jsonl.gz"
    writer = TraceWriter(path)
    for event in events[:3]:
        writer.write(event)
    held = path.read_bytes()  # as a kill would leave it
    writer.close()
    path.write_bytes(held)
    reading = read_trace(path)
    assert [next(reading) for _ in range(3)] == events[:3]
    with pytest.raises(ConfigError, match=r"run\.jsonl\.gz, line 3: the trace ends before its run did"):
        next(reading)


def test_damaged_compression_is_told_with_file_and_line(tmp_path):
    path = write(tmp_path / "run.jsonl.gz", traces.skipped())
    content = bytearray(path.read_bytes())
    content[-6] ^= 0xFF  # in the checksum at the end: all lines are read before it
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"run\.jsonl\.gz, line 10: the compressed file is damaged: CRC check failed"):
        list(read_trace(path))
    path.write_bytes(content[:10] + b"\xff" * 40)
    with pytest.raises(ConfigError, match=r"run\.jsonl\.gz, line 1: the compressed file is damaged: "):
        list(read_trace(path))


@given(text=st.text())
def test_an_event_survives_its_line_whatever_its_text(text: str):
    event = WarningRaised(code="c", message=text)
    line = encode_event(event)
    assert b"\n" not in line
    assert decode_event(line) == event


def test_every_event_is_on_disk_as_soon_as_it_is_written(tmp_path):
    events = traces.skipped()
    writer = TraceWriter(tmp_path / "run.jsonl")
    writer.write(events[0])
    writer.write(events[1])
    assert (tmp_path / "run.jsonl").read_bytes() == b"".join(encode_event(e) + b"\n" for e in events[:2])
    writer.close()


def test_an_earlier_trace_is_replaced_but_only_when_the_new_run_begins(tmp_path):
    path = write(tmp_path / "run.jsonl", traces.retrieved())
    before = path.read_bytes()
    with TraceWriter(path) as writer:
        assert path.read_bytes() == before
        writer.write(traces.skipped()[0])
    assert list(map(type, map(decode_event, path.read_bytes().splitlines()))) == [RunStarted]


@pytest.mark.parametrize("content", [b"# Handbook\n", b'{"kind":"warning_raised","code":"a","message":"b"}\n', b"\xff"])
def test_a_file_that_is_not_a_trace_is_never_overwritten(content, tmp_path):
    path = tmp_path / "handbook.md"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"handbook\.md exists and is not a trace, so it is not overwritten"):
        TraceWriter(path)
    assert path.read_bytes() == content


def test_an_empty_file_takes_a_trace(tmp_path):
    path = tmp_path / "run.jsonl"
    path.touch()
    write(path, traces.skipped())
    assert list(read_trace(path)) == traces.skipped()


def test_a_folder_takes_no_trace(tmp_path):
    with pytest.raises(ConfigError, match="is a folder"):
        TraceWriter(tmp_path)


def test_a_missing_folder_is_told_before_anything_runs(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot write the trace .*No such file or directory"):
        TraceWriter(tmp_path / "no" / "run.jsonl")


def test_a_run_that_never_began_leaves_no_file(tmp_path):
    TraceWriter(tmp_path / "run.jsonl").close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device exists on Linux only")
def test_a_full_disk_is_an_error_of_the_run():
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)
    with (
        pytest.raises(AdaptRAGError, match="cannot write the trace /dev/full: No space left"),
        TraceWriter(Path("/dev/full")) as writer,
    ):
        writer.write(traces.started())


def lines_of(name: str) -> list[bytes]:
    return [encode_event(event) for event in traces.ALL[name]()]


BROKEN = {
    "empty": ([], "is empty"),
    "not json": ([b"# Handbook"], "line 1: not a trace event"),
    "no start": (lines_of("skipped")[1:], "line 1: a trace starts with run_started"),
    "bad line": ([*lines_of("skipped")[:2], b'{"kind":"decision_made"}'], "line 3: not a trace event: .*retrieve"),
    "unknown kind": ([*lines_of("skipped")[:2], b'{"kind":"wish"}'], "line 3: not a trace event: .*'wish'"),
    "not finite": (
        [lines_of("skipped")[0], b'{"kind":"uncertainty_measured","seq":1,"name":"u","value":1e999}'],
        "line 2: not a trace event",
    ),
    "cut in a line": ([*lines_of("skipped")[:3], lines_of("skipped")[3][:40]], "line 4: not a trace event"),
    "cut after a line": (lines_of("skipped")[:4], "line 4: the trace ends before its run did"),
    "line missing": (
        [*lines_of("skipped")[:3], *lines_of("skipped")[4:]],
        r"line 4: seq is 4 where 3 was expected \(a line is missing\)",
    ),
    "two runs": ([*lines_of("skipped"), *lines_of("never")], "line 10: the file holds more than one run"),
    "future": (
        [encode_event(msgspec.structs.replace(traces.skipped()[0], schema_version=2))],
        "line 1: schema version 2 is newer than 1",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_trace_is_told_with_file_and_line(name, tmp_path):
    lines, message = BROKEN[name]
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    with pytest.raises(ConfigError, match=message) as caught:
        list(read_trace(path))
    assert "run.jsonl" in caught.value.message


def test_a_trace_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the trace .*No such file"):
        list(read_trace(tmp_path / "run.jsonl"))


def test_what_a_broken_trace_holds_before_the_break_is_still_read(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\n".join([*lines_of("skipped")[:3], b"oops"]))
    reading = read_trace(path)
    assert [next(reading) for _ in range(3)] == traces.skipped()[:3]
