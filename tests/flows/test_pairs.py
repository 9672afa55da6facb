"""PAIRS and DPR-AIS as whole runs: agreement decides, the imagined passage serves twice, answers stand between tags."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from adaptrag_cli.answers import tagged_answer
from adaptrag_cli.events import (
    DOCUMENTS_DO_NOT_TELL,
    AgreementMeasured,
    ChunksSelected,
    DecisionMade,
    Event,
    EvidenceJudged,
    GenerationFinished,
    GenerationReused,
    PathRetrieved,
    PromptBuilt,
    PseudoContextWritten,
    RunFinished,
    SentenceCited,
    TokenGenerated,
    UncertaintyMeasured,
)
from adaptrag_cli.evidence import EvidenceRule
from adaptrag_cli.models.base import Generation
from adaptrag_cli.prompts import Passage, pairs_direct, pairs_passage, pairs_with_context
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.answering import between_tags
from adaptrag_cli.strategies.base import Reuse, load_strategy
from fakes import Reply, ScriptedModel, reply, scripted_token
from lamp import DOCUMENTS, QUERY, lamp_retriever, run, unsure_model

IMAGINED = "An imagined passage."
PASSAGE, DIRECT, AGAIN, READING = "detailed passage", "concise answer", f"Context: {IMAGINED}", "based on the Context"


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    return lamp_retriever(tmp_path_factory.mktemp("lamp"))


def model_of(
    first: str | Reply = "<answer>Edison</answer>",
    second: str = "<answer>Swan</answer>",
    answer: str | Reply = "<answer>Ottilie Brandt</answer>",
    imagined: str = IMAGINED,
) -> ScriptedModel:
    """A model with these four replies."""
    model = ScriptedModel().when(PASSAGE, reply(imagined)).when(AGAIN, reply(second))
    model.when(READING, answer if isinstance(answer, Reply) else reply(answer))
    return model.when(DIRECT, first if isinstance(first, Reply) else reply(first))


def tagged(*logprobs: float) -> Reply:
    """`<answer>Ottilie Brandt</answer>` in four tokens."""
    texts = ("<answer>", "Ottilie", " Brandt", "</answer>")
    return Reply(tokens=tuple(scripted_token(t, p, 0.2) for t, p in zip(texts, logprobs, strict=True)))


def only(events: Sequence[Event], kind: type) -> Event:
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1, f"{len(found)} of {kind.__name__}"
    return found[0]


def outline(events: Sequence[Event]) -> list[str]:
    """The events in short: kinds, and phases or paths where they have one; tokens left out."""
    shown = (e for e in events if not isinstance(e, TokenGenerated | GenerationFinished))
    return [":".join(filter(None, (type(e).__name__, getattr(e, "phase", getattr(e, "path", ""))))) for e in shown]


def cost(events: Sequence[Event]) -> tuple[int, int]:
    counts = only(events, RunFinished).counts
    return counts.llm_calls, counts.searches


def test_the_prompts_are_the_papers():
    # Fig. 9 as METHODS reads it; white space is ours.
    def words(text: str) -> list[str]:
        return text.split()

    assert words(pairs_passage("Q?")) == words(
        "Your task is to write a detailed passage to answer the given question. Question: Q?"
    )
    assert words(pairs_direct("Q?")) == words(
        "Your task is to answer the given question. Please directly provide the concise answer inside <answer> and "
        "</answer> without detailed description, e.g., <answer>Beijing</answer>. Question: Q?"
    )
    passages = [Passage(title="T", text="one"), Passage(title="", text="two")]
    assert words(pairs_with_context("Q?", passages)) == words(
        "Your task is to answer the given question based on the Context. Please directly provide the answer inside "
        "<answer> and </answer> without detailed description, e.g., <answer>Beijing</answer>. Context: T one two "
        "Question: Q?"
    )


def test_answers_that_agree_are_the_answer_and_nothing_is_searched(retriever):
    model = model_of("<answer>Thomas Edison</answer>", "<answer>thomas edison.</answer>")
    events = run(model, retriever, "pairs", peek=False)
    assert outline(events) == [
        "RunStarted",
        "PromptBuilt:draft",
        "UncertaintyMeasured",
        "PromptBuilt:pseudo_context",
        "PseudoContextWritten",
        "PromptBuilt:second_draft",
        "AgreementMeasured",
        "DecisionMade",
        "RunFinished",
    ]
    assert [call.prompt.text for call in model.calls] == [
        model.build_prompt(text).text
        for text in (
            pairs_direct(QUERY),
            pairs_passage(QUERY),
            pairs_with_context(QUERY, [Passage(title="", text=IMAGINED)]),
        )
    ]
    agreement = only(events, AgreementMeasured)
    assert (agreement.rule, agreement.first, agreement.second) == ("exact", "Thomas Edison", "thomas edison.")
    assert (agreement.value, agreement.limit, agreement.agree) == (1.0, 1.0, True)
    decision = only(events, DecisionMade)
    assert (decision.retrieve, decision.uncertainty, decision.threshold) == (False, None, None)
    assert decision.reason == "both answers from memory are the same"
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("Thomas Edison", "draft", "tagged")
    assert cost(events) == (3, 0)


def test_answers_that_differ_are_looked_up_with_the_same_passage(retriever):
    model = model_of()
    events = run(model, retriever, "pairs")
    assert outline(events)[-8:] == [
        "AgreementMeasured",
        "DecisionMade",
        "PathRetrieved:query",
        "PathRetrieved:pseudo_context",
        "ChunksSelected",
        "PromptBuilt:answer",
        "EvidenceJudged",
        "RunFinished",
    ]
    assert only(events, DecisionMade).reason == "the two answers from memory differ"
    assert [PASSAGE in call.prompt.text for call in model.calls] == [False, True, False, False]  # imagined once
    searched = {e.path: e.query_text for e in events if isinstance(e, PathRetrieved)}
    assert searched == {"query": QUERY, "pseudo_context": IMAGINED}
    # As in DTR: angle sums lamp 20 + 40, fees 70 + 10, harbour 50 + 110.
    assert [c.document for c in only(events, ChunksSelected).candidates] == ["lamp.md", "fees.md", "harbour.txt"]
    kept = [Passage(title=c.title, text=c.text) for c in only(events, ChunksSelected).candidates if c.kept]
    assert [passage.text for passage in kept] == [DOCUMENTS["lamp.md"], DOCUMENTS["fees.md"]]
    assert model.calls[-1].prompt.text == model.build_prompt(pairs_with_context(QUERY, kept)).text
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == ("Ottilie Brandt", "documents", "tagged")
    assert cost(events) == (4, 2)


def test_dpr_ais_has_no_gate(retriever):
    model = model_of()
    events = run(model, retriever, "dpr-ais")
    assert outline(events) == [
        "RunStarted",
        "DecisionMade",
        "PromptBuilt:pseudo_context",
        "PseudoContextWritten",
        "PathRetrieved:query",
        "PathRetrieved:pseudo_context",
        "ChunksSelected",
        "PromptBuilt:answer",
        "EvidenceJudged",
        "RunFinished",
    ]
    decision = only(events, DecisionMade)
    assert (decision.retrieve, decision.uncertainty, decision.reason) == (True, None, "always looks up")
    assert only(events, RunFinished).answer == "Ottilie Brandt"
    assert cost(events) == (2, 2)


def test_it_selects_what_pairs_selects_when_answers_differ(retriever):
    selected = [only(run(model_of(), retriever, name), ChunksSelected).candidates for name in ("pairs", "dpr-ais")]
    assert selected[0] == selected[1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("", ""),
        ("<answer></answer>", "<answer> </answer>"),
        ("<answer>", "<answer>"),
        ("<answer>A</answer>", "<answer>a</answer>"),  # normalised to nothing
        ("<answer>...</answer>", "<answer>...</answer>"),
    ],
)
def test_empty_or_unparsable_answers_are_looked_up(retriever, first, second):
    events = run(model_of(first, second), retriever, "pairs")
    decision = only(events, DecisionMade)
    assert (decision.retrieve, decision.reason) == (True, "an answer from memory is empty")
    assert only(events, AgreementMeasured).value == 0.0
    assert cost(events) == (4, 2)


@pytest.mark.parametrize("first", ["", "<answer></answer>"])
def test_an_empty_answer_has_no_uncertainty(retriever, first):
    events = run(model_of(first), retriever, "pairs")
    measured = only(events, UncertaintyMeasured)
    assert (measured.value, measured.reason) == (None, "the draft is empty")


@pytest.mark.parametrize(
    "written",
    [
        "<answer>Edison</answer>",
        "<answer>Edison",  # cut off before its closing tag
        "<ANSWER>Edison</Answer>",
        "Edison\nHe did it in 1879.",  # no tags: the first line
        "It is this: <answer>\n Edison \n</answer> <answer>Swan</answer>",
    ],
)
def test_forgotten_tags_still_give_an_answer(retriever, written):
    events = run(model_of(written, "<answer>Edison</answer>"), retriever, "pairs")
    assert only(events, RunFinished).answer == "Edison"


def test_the_uncertainty_is_of_what_stands_between_the_tags(retriever):
    # (.4 + .8) / 2; with the tags it would be (.01 + .4 + .8 + .03) / 4 = .31
    events = run(model_of(tagged(-0.01, -0.4, -0.8, -0.03)), retriever, "pairs")
    assert only(events, UncertaintyMeasured).value == pytest.approx(0.6)


def test_so_is_the_evidence_rule(retriever):
    rule = EvidenceRule(max_answer_uncertainty=0.5, min_query_score=0.4)
    events = run(model_of(answer=tagged(-0.01, -0.4, -0.8, -0.03)), retriever, "pairs", rule=rule)
    assert only(events, EvidenceJudged).answer_uncertainty == pytest.approx(0.6)
    assert only(events, RunFinished).answer == DOCUMENTS_DO_NOT_TELL


def tokens_inside(*texts: str) -> list[str]:
    tokens = tuple(scripted_token(text, -0.1, 0.2) for text in texts)
    text = "".join(texts)
    generation = Generation(text=text, tokens=tokens, stop_reason="end", prompt_tokens=1, reused_tokens=0)
    return [token.text for token in between_tags(generation)]


@pytest.mark.parametrize(
    ("texts", "inside"),
    [
        (("<", "answer", ">", "Par", "is", "</", "answer", ">"), ["Par", "is"]),
        (("<answer", ">Par", "is</", "answer>"), [">Par", "is</"]),  # a token with one character inside counts
        (("<answer>", "answer", "</answer>"), ["answer"]),
        (("<answer>", " ", "Paris", "\n", "</answer>"), ["Paris"]),
        (("<answer>", "", "", "é", "</answer>"), ["", "", "é"]),  # one character in three tokens
        (("It is ", "<answer>", "Paris"), ["Paris"]),
        (("<answer>", "Paris", "\nIt is old."), ["Paris"]),
        (("Paris", " it is"), ["Paris", " it is"]),
        (("<answer>", "</answer>"), []),
    ],
)
def test_tokens_between_the_tags(texts, inside):
    assert tokens_inside(*texts) == inside


def test_an_empty_answer_from_documents_is_none(retriever):
    events = run(model_of(answer="<answer></answer>"), retriever, "dpr-ais")
    end = only(events, RunFinished)
    assert (end.answer, end.answer_source, end.extraction) == (DOCUMENTS_DO_NOT_TELL, "none", "none")
    assert only(events, EvidenceJudged).reason == "the model gave no answer"


@pytest.mark.parametrize(("answer", "retrieve"), [("1887", True), ("page 7b", True), ("eighteen", False)])
def test_agreed_answers_with_a_number_can_be_looked_up(retriever, answer, retrieve):
    model = model_of(f"<answer>{answer}</answer>", f"<answer>{answer}</answer>")
    without = run(model, retriever, "pairs")
    assert not only(without, DecisionMade).retrieve
    events = run(model, retriever, "pairs", exclude_numbers=True)
    decision = only(events, DecisionMade)
    assert decision.retrieve is retrieve
    assert only(events, AgreementMeasured).agree
    assert cost(events) == ((4, 2) if retrieve else (3, 0))
    if retrieve:
        assert decision.reason == "both answers from memory are the same, but numbers are looked up"


@pytest.mark.parametrize(
    ("rule", "limit", "value", "agrees"),
    [
        ("exact", 0.5, 0.0, False),
        ("containment", 0.5, 1.0, True),
        ("f1", 0.5, 2 / 3, True),  # "ottilie brandt" against "brandt": 2 * (1/2) / (3/2)
        ("f1", 0.7, 2 / 3, False),
    ],
)
def test_other_rules_of_agreement(retriever, rule, limit, value, agrees):
    model = model_of("<answer>Ottilie Brandt</answer>", "<answer>Brandt</answer>")
    events = run(model, retriever, "pairs", agreement=rule, agreement_limit=limit)
    agreement = only(events, AgreementMeasured)
    assert (agreement.rule, agreement.agree) == (rule, agrees)
    assert agreement.value == pytest.approx(value)
    assert only(events, DecisionMade).retrieve is not agrees
    if agrees:
        assert only(events, RunFinished).answer == "Ottilie Brandt"  # a1, not a2


@pytest.mark.parametrize(("limit", "agrees"), [(0.6, True), (0.7, False)])
def test_agreement_by_the_encoders_cosine(retriever, limit, agrees):
    # "Ottilie" stands at 20 degrees and "fee" at 70: cos 50 = .642788
    model = model_of("<answer>Ottilie</answer>", "<answer>a fee</answer>")
    events = run(model, retriever, "pairs", agreement="cosine", agreement_limit=limit)
    agreement = only(events, AgreementMeasured)
    assert agreement.value == pytest.approx(0.642788, abs=1e-6)
    assert (agreement.limit, agreement.agree) == (limit, agrees)


def test_blank_answers_have_no_cosine(retriever):
    events = run(model_of("", ""), retriever, "pairs", agreement="cosine", agreement_limit=0.0)
    assert only(events, DecisionMade).retrieve


def test_a_blank_passage_verifies_nothing_and_leaves_the_query_path(retriever):
    events = run(model_of(imagined=" \n"), retriever, "pairs")
    assert only(events, PseudoContextWritten).text == ""
    assert not [e for e in events if isinstance(e, PromptBuilt) and e.phase == "second_draft"]
    assert only(events, AgreementMeasured).second == ""
    assert only(events, DecisionMade).retrieve
    assert only(events, PathRetrieved).path == "query"
    assert cost(events) == (3, 1)


@pytest.mark.parametrize("strategy", ["pairs", "dpr-ais"])
def test_answers_can_be_cited_sentences(retriever, strategy):
    model = ScriptedModel().when("complete sentences", reply("Ottilie Brandt lit it in 1887."))
    model.when(PASSAGE, reply(IMAGINED)).when(AGAIN, reply("<answer>Swan</answer>"))
    model.when(DIRECT, reply("<answer>Edison</answer>"))
    events = run(model, retriever, strategy, style="cited")
    assert only(events, SentenceCited).markers == (1,)
    end = only(events, RunFinished)
    assert (end.answer, end.extraction) == ("Ottilie Brandt lit it in 1887. [1]", "cited")


@pytest.mark.parametrize("strategy", ["pairs", "dpr-ais"])
def test_tags_get_room(strategy):
    defaults = load_strategy(strategy).defaults
    assert (defaults.draft_tokens, defaults.answer_tokens) == (48, 48)
    assert (defaults.top_n, defaults.top_k, defaults.ais, defaults.agreement) == (5, 3, "cos", "exact")


def test_options_that_change_something_are_named():
    assert load_strategy("pairs").uses - load_strategy("dpr-ais").uses == {
        "agreement",
        "agreement_limit",
        "exclude_numbers",
        "draft_tokens",
    }
    assert load_strategy("dpr-ais").uses >= {"paths", "ais", "selection", "top_n", "top_k", "retriever", "style"}


def test_texts_of_another_prompt_are_not_taken_over(retriever):
    dtr = unsure_model()
    of_dtr = Reuse.of_events(run(dtr, retriever))
    events = run(model_of(), retriever, "pairs", reuse=of_dtr)
    assert not [e for e in events if isinstance(e, GenerationReused)]
    assert cost(events) == (4, 2)
    of_pairs = Reuse.of_events(events)
    again = run(unsure_model(), retriever, reuse=of_pairs)
    assert not [e for e in again if isinstance(e, GenerationReused)]
    assert only(again, UncertaintyMeasured).value == 0.5


def test_texts_of_the_same_prompt_are(retriever):
    model = model_of()
    first = run(model, retriever, "pairs")
    second = run(model, retriever, "pairs", reuse=Reuse.of_events(first))
    assert [e.phase for e in second if isinstance(e, GenerationReused)] == ["draft", "pseudo_context"]
    assert cost(second) == (2, 2)
    third = run(model, retriever, "dpr-ais", reuse=Reuse.of_events(second))  # reused texts keep their prompt
    assert [e.phase for e in third if isinstance(e, GenerationReused)] == ["pseudo_context"]
    assert only(third, ChunksSelected).candidates == only(first, ChunksSelected).candidates


def test_the_answer_is_the_stated_extraction_of_its_phase(retriever):
    events = run(model_of(), retriever, "pairs")
    written = next(e.text for e in events if isinstance(e, GenerationFinished) and e.phase == "answer")
    assert written == "<answer>Ottilie Brandt</answer>"
    assert tagged_answer(written) == only(events, RunFinished).answer
