"""What decisions are learned from, in a model's own tokens: the ones that it writes in a narrative."""

from __future__ import annotations

from pathlib import Path

import filelock
import pytest

from adaptrag_cli.learning.examples import preference_of
from adaptrag_cli.learning.pairs import Pair, make_pairs
from adaptrag_cli.learning.tree import Answers, explore
from adaptrag_cli.models.vocabulary import open_tokens
from adaptrag_cli.stepwise.narrative import Narrative, NarrativeStep, render

pytestmark = pytest.mark.small_model


class TwoSteps:
    def sub_query(self, question, steps):
        return "" if len(steps) == 2 else ("Who wrote it?", "When was he born?")[len(steps)]

    def answers(self, question, steps, sub_query):
        return Answers(direct="He did.", passages=("Hamlet: By W. S.",), retrieved="William Shakespeare.")

    def final(self, question, steps):
        return "".join("R" if step.retrieve else "D" for step in steps)


@pytest.fixture(scope="module", params=["smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct"])
def path(models_dir: Path, request: pytest.FixtureRequest) -> Path:
    from adaptrag_cli.models.download import ensure_models
    from adaptrag_cli.models.files import locate_model

    with filelock.FileLock(models_dir / ".tests.lock"):
        ensure_models([request.param], models_dir)
    return locate_model(request.param, models_dir).path


def narrated(*letters: str) -> str:
    """The narrative of a path to its end, as a trajectory tells it and a trained model writes it."""
    stub = TwoSteps()
    steps: list[NarrativeStep] = []
    for letter in letters:
        answers = stub.answers("", steps, "")
        looked_up = letter == "R"
        steps.append(
            NarrativeStep(
                sub_query=stub.sub_query("", steps),
                retrieve=looked_up,
                passages=answers.passages if looked_up else (),
                answer=answers.retrieved if looked_up else answers.direct,
            )
        )
    return render(Narrative(steps=tuple(steps), final="1564"))


@pytest.mark.parametrize("pairs", ["path", "sentence"])
def test_the_tokens_of_a_decision_are_those_of_the_narrative(path: Path, pairs: str):
    """A full stop and the end of its line are one token for many models: to a trained one, the stop alone is absurd."""
    tree = explore("Who was it?", TwoSteps(), {"RD", "RR"}.__contains__)
    made: tuple[Pair, ...] = make_pairs(tree, pairs)
    assert [pair.prefers_retrieval for pair in made] == [True, False]
    with open_tokens(path, trusted=True) as tokens:
        for pair, (preferred, rejected) in zip(made, [("RD", "DD"), ("RD", "RR")], strict=True):
            fork = preference_of(pair, tokens).fork
            prefix = fork.token_ids[: fork.prefix]
            first = fork.token_ids[fork.prefix : fork.prefix + fork.first]
            second = fork.token_ids[fork.prefix + fork.first :]
            user_text = preference_of(pair, tokens).question
            for letters, continuation in ((preferred, first), (rejected, second)):
                whole = tokens.prompt(user_text, narrated(*letters))
                assert whole[: len(prefix) + len(continuation)] == (*prefix, *continuation)
