"""The rule that says when the documents do not tell."""

from adaptrag_cli.evidence import EvidenceRule, judge_cited_answer, judge_short_answer

RULE = EvidenceRule(max_answer_uncertainty=0.5, min_query_score=0.4)


def test_a_sure_answer_from_a_close_chunk_is_supported():
    assert judge_short_answer("green", 0.5, [0.2, 0.4], RULE).supported


def test_an_unsure_answer_is_a_guess():
    verdict = judge_short_answer("green", 0.51, [0.9], RULE)
    assert not verdict.supported
    assert verdict.reason == "the answer is a guess: u = 0.51 > 0.50"


def test_no_close_chunk_means_another_subject():
    verdict = judge_short_answer("green", 0.1, [0.1, 0.39], RULE)
    assert not verdict.supported
    assert verdict.reason == "no chunk is close to the question: best s1 = 0.39 < 0.40"


def test_without_a_measured_rule_only_nothing_at_all_is_refused():
    assert judge_short_answer("green", 9.0, [-0.5], None).supported
    assert not judge_short_answer("", 0.0, [0.9], None).supported
    assert not judge_short_answer("green", 0.0, [], None).supported


def test_an_undefined_uncertainty_is_a_guess():
    assert not judge_short_answer("green", None, [0.9], RULE).supported


def test_cited_sentences_must_be_traced():
    assert not judge_cited_answer("It is green.", 0, [0.9], RULE).supported
    assert judge_cited_answer("It is green.", 1, [0.9], RULE).supported
    assert not judge_cited_answer("It is green.", 1, [0.3], RULE).supported
