"""ETC as whole runs: where it fires, what it keeps, what it searches for, and how it ends."""

from __future__ import annotations

import math

import pytest

from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.evaluation.scoring import score_run
from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    PathRetrieved,
    PromptBuilt,
    QueryBuilt,
    RunFailed,
    RunFinished,
    TokensDiscarded,
    WarningRaised,
    WordMeasured,
)
from adaptrag_cli.strategies.base import Options, Resources, load_strategy, wanted_capabilities
from fakes import Reply, ScriptedModel, reply, scripted_token
from lamp import QUERY, lamp_retriever
from laws import kept_text
from methods import cost, only, outline, run_with

PROBE = "The lamp of Skarvik was lit by Thomas Edison in 1879."
ENTROPIES = [0.1, 0.2, 0.1, 0.3, 0.1, 0.2, 0.1, 1.9, 0.4, 0.1, 0.6]
"""Of the content words: lamp .2, Skarvik .3, lit .2, Thomas 1.9, Edison .4, 1879 .6."""
KEPT = "The lamp of Skarvik was lit by"
ANSWER = " So the answer is Ottilie Brandt."


@pytest.fixture
def retriever(tmp_path):
    return lamp_retriever(tmp_path)


@pytest.fixture
def model():
    """Unsure at "Thomas", where it attends to the lamp and to Skarvik; over documents it writes another name."""
    model = ScriptedModel().pays("Thomas", {"lamp?": 0.4, "Skarvik": 0.3})
    return model.then(probe(), reply(" Ottilie Brandt in 1887. That is all."), reply(ANSWER))


def probe(entropies=ENTROPIES):
    return reply(PROBE, entropy=entropies)


def etc(model, retriever, **options):
    use = Resources(model=model, retriever=retriever)
    return run_with(use, "etc", **{"retriever": "sparse", "trigger": 1.0, **options})


def found(events, kind):
    return [event for event in events if isinstance(event, kind)]


def fired(events):
    return [event.text for event in found(events, WordMeasured) if event.fires]


def warned(events):
    return [event.code for event in found(events, WarningRaised)]


def prompts_of(events):
    return [event for event in found(events, PromptBuilt) if event.phase == "reasoning"]


def test_it_looks_up_where_the_entropy_turns(model, retriever):
    events = etc(model, retriever)
    assert outline(events) == [
        "RunStarted",
        "PromptBuilt:reasoning",
        *["WordMeasured:reasoning"] * 6,
        "TokensDiscarded:reasoning",
        "DecisionMade",
        "QueryBuilt",
        "PathRetrieved:reasoning",
        "ChunksSelected",
        "PromptBuilt:reasoning",
        "PromptBuilt:reasoning",
        *["WordMeasured:reasoning"] * 3,
        "DecisionMade",
        "RunFinished",
    ]
    assert cost(events) == (3, 1)  # 2 R + 1 calls and R searches
    assert model.is_exhausted
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("Ottilie Brandt", "documents", "reasoned")
    assert kept_text(events, "reasoning") == KEPT + " Ottilie Brandt in 1887." + ANSWER


def test_the_words_carry_their_numbers(model, retriever):
    words = found(etc(model, retriever), WordMeasured)[:6]
    assert [word.text for word in words] == ["lamp", "Skarvik", "lit", "Thomas", "Edison", "1879."]
    assert [word.entropy for word in words] == [0.2, 0.3, 0.2, 1.9, 0.4, 0.6]
    assert [(word.first_step, word.step) for word in words] == [(1, 1), (3, 3), (5, 5), (7, 7), (8, 8), (10, 10)]
    assert words[0].first_difference is words[1].second_difference is None
    assert [word.first_difference for word in words[1:]] == pytest.approx([0.1, -0.1, 1.7, -1.5, 0.2])
    assert [word.second_difference for word in words[2:]] == pytest.approx([-0.2, 1.8, -3.2, 1.7])
    # E = -.2, .8, -.533333, .025; w = 1, .5, .466667, .658163; m = (.9 + .1 w) d + (.1 - .1 w) d before.
    assert [word.value for word in words[2:]] == pytest.approx([-0.2, 1.7, -2.933333, 1.532500], abs=1e-6)
    assert [word.value for word in words[:2]] == [None, None]
    assert [word.fires for word in words] == [False, False, False, True, False, False]
    assert {word.threshold for word in words} == {1.0}


def test_the_text_is_cut_before_the_word(model, retriever):
    events = etc(model, retriever)
    discarded = only(events, TokensDiscarded)
    assert (discarded.from_step, discarded.text) == (7, " Thomas Edison in 1879.")
    first, last = found(events, DecisionMade)
    assert (first.retrieve, first.threshold, first.reason) == (True, 1.0, 'entropy turns sharply upwards at "Thomas"')
    assert first.uncertainty == pytest.approx(1.7)
    assert (last.retrieve, last.uncertainty, last.reason) == (False, 0.0, "no word fires")
    assert prompts_of(events)[1].text.endswith(f"<assistant>{KEPT}")


def test_the_space_before_the_word_goes_with_it(retriever):
    pieces = ["The", " lamp", " of", " Skarvik", " was", " lit", " in", " ", "1", "8", "."]
    entropies = [0.1, 0.2, 0.1, 0.3, 0.1, 0.2, 0.1, 0.1, 1.9, 0.4, 0.1]
    tokens = tuple(scripted_token(text, -0.1, entropy) for text, entropy in zip(pieces, entropies, strict=True))
    model = ScriptedModel().then(Reply(tokens=tokens), reply(" May."), reply(" May."))
    events = etc(model, retriever)
    word = next(word for word in found(events, WordMeasured) if word.fires)
    assert (word.text, word.first_step, word.step, word.entropy) == ("18", 8, 9, 1.9)  # the greatest of its tokens
    assert (only(events, TokensDiscarded).from_step, only(events, TokensDiscarded).text) == (7, " 18.")
    assert prompts_of(events)[1].text.endswith("<assistant>The lamp of Skarvik was lit in")


def test_the_query_is_what_the_firing_words_attend_to(model, retriever):
    query = only(etc(model, retriever, query_words=2), QueryBuilt)
    assert (query.method, query.text) == ("attention", "lamp Skarvik")
    assert [word.weight for word in query.words] == pytest.approx([0.4, 0.3])


def test_without_a_limit_all_content_words_are_the_query_in_their_order(model, retriever):
    events = etc(model, retriever)
    assert only(events, QueryBuilt).text == "lit lamp lamp Skarvik lit"  # of the question, then of the kept text
    assert only(events, PathRetrieved).query_text == "lit lamp lamp Skarvik lit"


def test_the_words_of_earlier_sentences_may_be_chosen(retriever):
    model = ScriptedModel().pays("Thomas", {"lamp?": 0.4, "Skarvik": 0.3}).pays("1900", {"Brandt": 0.5, "lamp?": 0.2})
    second = reply(" Later came again 1900 perhaps.", entropy=[0.1, 0.1, 0.1, 2.5, 0.1])
    model.then(probe(), reply(" Ottilie Brandt in 1887. It is."), second, reply(" She came. It is."), reply(ANSWER))
    events = etc(model, retriever, query_words=2)
    assert fired(events) == ["Thomas", "1900"]
    assert [query.text for query in found(events, QueryBuilt)] == ["lamp Skarvik", "lamp Brandt"]
    assert cost(events) == (5, 2)


def test_documents_are_read_for_one_sentence(model, retriever):
    events = etc(model, retriever)
    ids = tuple(c.chunk_id for c in only(events, ChunksSelected).candidates if c.kept)
    assert ids
    assert [prompt.chunk_ids for prompt in prompts_of(events)] == [(), ids, ()]
    assert only(events, RunFinished).chunk_ids == ids


@pytest.mark.parametrize("policy", ["replace", "accumulate"])
def test_documents_may_stay(model, retriever, policy):
    events = etc(model, retriever, context_policy=policy)
    ids = prompts_of(events)[1].chunk_ids
    assert ids
    assert prompts_of(events)[2].chunk_ids == ids


def test_one_sentence_is_written_anew(model, retriever):
    etc(model, retriever)
    assert [call.max_sentences for call in model.calls] == [0, 1, 0]
    assert [call.max_tokens for call in model.calls] == [128, 121, 117]  # 7 tokens are kept, then 4 more


def test_an_evaluation_counts_it_as_looked_up_though_its_last_decision_says_no(model, retriever):
    question = Question(id="q1", text=QUERY, answers=("Ottilie Brandt",))
    result = score_run(etc(model, retriever), question, cell="c", set_name="s", label="etc", trace="t")
    assert (result.retrieved, result.searches, result.em) == (True, 1, 1.0)
    assert result.documents
    assert (result.look_ups, result.triggers) == (1, 1)
    assert result.first_trigger is not None
    assert result.first_trigger.token == 7  # the tokens that are kept


# The paper's claims, with the sequences written out: d = d2H, m = (.9 + .1 w) d + (.1 - .1 w) d before, and w_2 = .5.
RISING = [0.1, 0.2, 1.2, 3.23]  # d = .9, 1.03: m_2 = .95 * 1.03 + .05 * .9 = 1.0235
SPIKE = [1.0, 1.5, 1.1, 1.73]  # d = -.9, 1.03: m_2 = .95 * 1.03 - .05 * .9 = .9335


def trend(entropies):
    return reply("Gulls watch Skarvik harbour.", entropy=entropies)


def looks_up(retriever, entropies, **options):
    model = ScriptedModel().then(trend(entropies), reply(" boats."), reply(ANSWER), reply(" it."))
    return fired(etc(model, retriever, **options))


def test_it_fires_on_a_rising_trend_and_not_on_one_spike(retriever):
    assert looks_up(retriever, RISING) == ["harbour."]
    assert looks_up(retriever, SPIKE) == []


def test_without_smoothing_the_spike_fires_as_well(retriever):
    assert looks_up(retriever, RISING, smoothing="none") == looks_up(retriever, SPIKE, smoothing="none") == ["harbour."]


def test_it_fires_before_any_entropy_is_high(retriever):
    # d = .1, .4: low entropies that rise faster and faster; H > .6 would never fire.
    assert looks_up(retriever, [0.0, 0.0, 0.1, 0.6], trigger=0.35) == ["harbour."]


def test_a_sharp_drop_fires_in_the_paper_and_not_in_the_code(retriever):
    drop = [2.5, 2.6, 1.2, 0.7]  # d = -1.5, .9: m_1 = -1.5, m_2 = .95 * .9 - .05 * 1.5 = .78
    assert looks_up(retriever, drop) == ["Skarvik"]
    assert looks_up(retriever, drop, mode="code") == []


@pytest.mark.parametrize(
    ("entropies", "difference", "reason"),
    [
        (RISING, "second", 'entropy turns sharply upwards at "harbour"'),
        ([2.5, 2.6, 1.2, 0.7], "second", 'entropy turns sharply downwards at "Skarvik"'),
        (RISING, "first", 'entropy changes sharply upwards at "harbour"'),
        ([2.5, 2.6, 1.2, 0.7], "first", 'entropy changes sharply downwards at "Skarvik"'),
    ],
)
def test_the_reason_tells_in_which_direction_the_entropy_turns(retriever, entropies, difference, reason):
    model = ScriptedModel().then(trend(entropies), reply(" boats."), reply(ANSWER))
    events = etc(model, retriever, difference=difference)
    assert found(events, DecisionMade)[0].reason == only(events, TokensDiscarded).reason == reason


def test_the_first_difference_fires_one_word_earlier(retriever):
    assert looks_up(retriever, RISING, difference="first", trigger=0.9) == ["Skarvik"]
    # dH = .1, 1.0, 2.03: m_2 = .95 * 1 + .05 * .1 = .955


def test_equality_fires_in_the_paper(retriever):
    even = [0.0, 0.0, 1.0, 1.0]  # m_1 = d_1 = 1
    assert looks_up(retriever, even) == ["Skarvik"]
    assert looks_up(retriever, even, mode="code") == []  # a = 1 for each word, and 1 > 1 does not hold


def test_in_the_code_s_form_attention_weighs(retriever):
    model = ScriptedModel().pays("harbour.", {"Gulls": 0.6, "watch": 0.2})
    model.then(trend([0.1, 0.2, 0.4, 1.6]), reply(" boats."), reply(ANSWER))
    events = etc(model, retriever, mode="code")
    last = found(events, WordMeasured)[3]
    # Greatest payments 1, 1, 1 and .6, so a = .6 / 3.6 * 4 = 2/3; d = .1, 1 gives m = .955.
    assert last.attention == pytest.approx(2 / 3, abs=1e-6)
    assert last.value == pytest.approx(2 / 3 * 0.955, abs=1e-6)
    alone, in_context = model.attended[0][0], [prompt for prompt, _ in model.attended[1:]]
    assert len(alone) == 0
    assert in_context == []  # nothing fired


def test_attention_is_wanted_and_not_required():
    etc, dragin, cot = map(load_strategy, ("etc", "dragin", "cot"))
    assert wanted_capabilities(etc) - etc.requires == {"attention"}
    assert "attention" in dragin.requires
    assert wanted_capabilities(cot) == cot.requires


def test_the_code_s_form_needs_attention(retriever):
    model = ScriptedModel(gives_attention=False)
    failed = etc(model, retriever, mode="code")[-1]
    assert isinstance(failed, RunFailed)
    assert (failed.error, failed.hint) == (
        "MissingCapability",
        "use --mode paper, or choose another model with --model",
    )
    assert not model.calls


def test_without_attention_content_words_are_the_query(model, retriever):
    model.gives_attention = False
    events = etc(model, retriever)
    assert warned(events) == ["no_attention"]
    query = only(events, QueryBuilt)
    assert (query.method, query.text) == ("content_words", "lit lamp lamp Skarvik lit")
    assert {word.weight for word in query.words} == {None}
    assert only(events, RunFinished).answer == "Ottilie Brandt"


def test_attention_that_is_no_number_still_gives_a_query(retriever):
    model = ScriptedModel().pays("Thomas", {"lamp?": math.nan})
    model.then(probe(), reply(" Ottilie Brandt."), reply(ANSWER))
    query = only(etc(model, retriever, query_words=2), QueryBuilt)
    assert query.text
    assert all(word.weight is None or math.isfinite(word.weight) for word in query.words)


def test_attention_that_is_no_number_looks_up(retriever):
    model = ScriptedModel().pays("harbour.", {"Gulls": math.nan})
    model.then(trend([0.1, 0.2, 0.4, 0.5]), reply(" boats."), reply(" nobody."))
    events = etc(model, retriever, mode="code")
    assert fired(events) == ["Skarvik"]  # the first word with a difference, in a sentence without a sum
    decision = found(events, DecisionMade)[0]
    assert (decision.retrieve, decision.uncertainty) == (True, None)


def test_nothing_found_goes_on_without(retriever):
    model = ScriptedModel().pays("Thomas.", {"Zanzibar": 0.5})
    text = "Zanzibar Quito Oslo Thomas."
    model.then(reply(text, entropy=[0.1, 0.1, 0.1, 2.0]), reply(" Edison."), reply(" Ottilie Brandt."))
    events = etc(model, retriever, query_words=1)
    assert only(events, QueryBuilt).text == "Zanzibar"
    assert only(events, PathRetrieved).chunks == ()
    assert warned(events) == ["nothing_found"]
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.chunk_ids) == ("Ottilie Brandt", "draft", ())


def test_a_sentence_that_stays_empty_ends_the_text(retriever):
    model = ScriptedModel().then(probe(), reply(""), reply(" nobody."))
    events = etc(model, retriever)
    assert warned(events) == ["no_progress"]
    assert cost(events) == (3, 1)  # probe, empty sentence, conclusion
    assert model.calls[-1].prompt.text.endswith(f"<assistant>{KEPT} So the answer is")
    assert only(events, RunFinished).answer == "nobody"


def test_the_look_ups_are_counted(retriever):
    model = ScriptedModel()
    for number in range(2):
        model.then(probe(), reply(f" number {number}. That is all."))
    model.then(probe(), reply(" Ottilie."))
    events = etc(model, retriever, max_retrievals=2)
    assert warned(events) == ["look_ups_used_up"]
    assert [decision.retrieve for decision in found(events, DecisionMade)] == [True, True, False]
    why = 'entropy turns sharply upwards at "Thomas", but the look-ups are used up'
    assert found(events, DecisionMade)[-1].reason == why
    assert fired(events) == ["Thomas", "Thomas"]
    assert kept_text(events, "reasoning").endswith("number 1." + PROBE)
    assert cost(events)[1] == 2


def test_a_text_that_never_ends_is_cut(retriever):
    model = ScriptedModel().when("So the answer is</", reply("")).then(reply(" gulls" * 500), reply(" gulls."))
    events = etc(model, retriever, reasoning_tokens=32)
    assert warned(events) == ["reasoning_cut"]
    assert kept_text(events, "reasoning") == " gulls" * 32
    assert only(events, RunFinished).answer == "gulls"


def test_the_tokens_of_all_calls_are_counted(retriever):
    model = ScriptedModel().then(probe(), reply(" a" * 100), reply(" Ottilie."))
    events = etc(model, retriever, reasoning_tokens=12)
    assert [call.max_tokens for call in model.calls] == [12, 5, Options().conclusion_tokens]
    assert warned(events) == ["reasoning_cut"]


def test_a_model_that_says_nothing_is_asked_to_conclude(retriever):
    model = ScriptedModel().then(reply(""), reply(" Ottilie."))
    events = etc(model, retriever)
    assert [decision.reason for decision in found(events, DecisionMade)] == ["the text has ended"]
    assert (only(events, RunFinished).answer, cost(events)) == ("Ottilie", (2, 0))


def test_a_text_that_ends_with_its_new_sentence_is_not_probed_again(retriever):
    model = ScriptedModel().then(probe(), reply(" Ottilie Brandt. So the answer is Ottilie."))
    model.then(reply(" So the answer is Ottilie Brandt. Really.", stop_reason="end"))
    events = etc(model, retriever)
    assert cost(events) == (3, 1)
    concluding = ScriptedModel().then(probe(), reply(" nobody, so the answer is no."))
    assert cost(etc(concluding, retriever)) == (2, 1)


def test_a_sure_text_looks_nothing_up(retriever):
    model = ScriptedModel().then(reply(PROBE + ANSWER))
    events = etc(model, retriever)
    assert cost(events) == (1, 0)
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source) == ("Ottilie Brandt", "draft")
    assert only(events, DecisionMade).retrieve is False
    assert not model.attended  # attention is read only where something fires


@pytest.mark.parametrize("smoothing", ["literal", "normalised", "fixed"])
def test_other_smoothings(retriever, smoothing):
    model = ScriptedModel().then(probe(), reply(" nobody, so the answer is no."), reply(" no."))
    values = [word.value for word in found(etc(model, retriever, smoothing=smoothing, trigger=9.0), WordMeasured)]
    expected = {
        # w = 1, .5, .466667, .658163 with w_0 d_0 = 0
        "literal": [-0.2, 0.7, -0.593333, -0.374456],
        "normalised": [-0.2, 0.8, -0.533333, 0.025],
        "fixed": [-0.18, 1.6, -2.7, 1.21],
    }[smoothing]
    assert values[2:6] == pytest.approx(expected, abs=1e-5)
