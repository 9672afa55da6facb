"""The rule that says when the documents do not tell."""

from adaptrag_cli.evidence import EvidenceRule, judge_chunks, judge_cited_answer, judge_short_answer

RULE = EvidenceRule(max_answer_uncertainty=0.5, min_query_score=0.4)


def test_the_closest_chunk_counts():
    assert judge_chunks([0.2, 0.4], RULE).supported
    verdict = judge_chunks([0.1, 0.39], RULE)
    assert not verdict.supported
    assert verdict.reason == "no chunk is close to the question: best s1 = 0.39 < 0.40"


def test_no_chunk_tells_nothing():
    assert not judge_chunks([], RULE).supported
    assert not judge_chunks([], None).supported


def test_a_sure_answer_is_supported_up_to_the_limit():
    assert judge_short_answer("green", 0.5, RULE).supported
    verdict = judge_short_answer("green", 0.51, RULE)
    assert not verdict.supported
    assert verdict.reason == "the answer is a guess: u = 0.51 > 0.50"


def test_an_undefined_uncertainty_is_a_guess():
    assert not judge_short_answer("green", None, RULE).supported


def test_without_a_measured_rule_only_nothing_at_all_is_refused():
    assert judge_chunks([-0.5], None).supported
    assert judge_short_answer("green", 9.0, None).supported
    assert not judge_short_answer("", 0.0, None).supported


def test_cited_sentences_must_be_traced():
    assert not judge_cited_answer(0).supported
    assert judge_cited_answer(1).supported
