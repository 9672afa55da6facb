"""Let a small model learn a form by rewards alone: GRPO with 1 for a narrative in form and 0 for any other.

    python tests/benchmarks/train_form.py MODEL.gguf [--rounds 2] [--group 6]

What stage `grpo` does, with form for its only reward, so that a small model can get better at it: first four steps of
stage I on narratives made here, for nothing is rewarded that is never written; then a step for each of eight other
questions, in as many rounds. It prints the mean reward of each step, and that of a question that is never learned
from before the first round and after each. Half an hour on one core with the 135M.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import msgspec

from adaptrag_cli import prompts
from adaptrag_cli.learning.examples import example_of
from adaptrag_cli.learning.fitting import Fitting, LossPoint, Recipe
from adaptrag_cli.learning.grpo import GroupLoss, Task
from adaptrag_cli.learning.lora import LoraShape, add_lora, load_base
from adaptrag_cli.learning.rollouts import Limits, Rollout
from adaptrag_cli.learning.stages import imitation_loss
from adaptrag_cli.learning.trajectories import make_trajectory
from adaptrag_cli.models.vocabulary import open_tokens
from adaptrag_cli.stepwise.narrative import Narrative, NarrativeStep

SHOWN = {
    "What is the capital of France?": "Paris",
    "Who wrote Hamlet?": "Shakespeare",
    "What is the largest ocean?": "the Pacific",
    "Which planet is red?": "Mars",
    "What metal is liquid?": "mercury",
    "Who painted the Mona Lisa?": "Leonardo",
    "What do bees make?": "honey",
    "How many legs has a spider?": "eight",
}
ASKED = (
    "What is the capital of Italy?",
    "Who wrote Faust?",
    "What is the smallest planet?",
    "Which animal barks?",
    "What is frozen water?",
    "What colour is grass?",
    "Who discovered gravity?",
    "How many days has a week?",
    "What is the capital of Spain?",
)
SHOWING = Recipe(learning_rate=1e-3, epochs=1, accumulation=2, patience=0)
REWARDING = Recipe(learning_rate=3e-4, epochs=1, accumulation=1, patience=0, weight_decay=0.0)


def form_reward(_task: Task, rollout: Rollout) -> float:
    """1 for a narrative in form, whatever it says."""
    return float(rollout.is_well_formed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--group", type=int, default=6)
    given = parser.parse_args()
    model = add_lora(load_base(given.model), LoraShape(rank=8, alpha=16), seed=0)
    with tempfile.TemporaryDirectory() as folder, open_tokens(given.model, trusted=True) as tokens:
        examples = [example_of(make_trajectory(prompts.follow_ups(q), answered(q, SHOWN[q])), tokens) for q in SHOWN]
        Fitting(
            model=model,
            train=examples[:-1],
            held_out=examples[-1:],
            loss=lambda example: imitation_loss(model, example),
            recipe=SHOWING,
            seed=0,
            folder=Path(folder, "shown"),
            digest="shown",
        ).run()
        tasks = [Task(question=prompts.follow_ups(question), golds=()) for question in ASKED]
        drawn = GroupLoss(
            model, tokens, lambda _: (), seed=0, reward=form_reward, group=given.group, limits=Limits(max_tokens=44)
        )
        Fitting(
            model=model,
            train=tasks[1:],
            held_out=tasks[:1],
            loss=drawn,
            recipe=msgspec.structs.replace(REWARDING, epochs=given.rounds),
            seed=0,
            folder=Path(folder, "rewarded"),
            digest="rewarded",
            before_item=drawn.before_item,
            on_point=tell,
        ).run()


def answered(question: str, answer: str) -> Narrative:
    """A narrative of one step that asks the question itself."""
    return Narrative(steps=(NarrativeStep(sub_query=question, answer=answer),), final=answer)


def tell(point: LossPoint) -> None:
    """Print a reward: the loss that is told is the negative one."""
    if point.held_out is not None:
        print(f"round {point.epoch:.0f}: held out {-point.held_out:.2f}", flush=True)
    elif point.loss is not None:
        print(f"step {point.step:2}: {-point.loss:.2f}", flush=True)


if __name__ == "__main__":
    main()
