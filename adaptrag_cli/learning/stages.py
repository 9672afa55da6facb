"""The two stages of DeepRAG's training: imitate the cheapest right paths, then calibrate the decisions on them.

Stage I (section 3.4; METHODS 9.4) is cross-entropy of what a trajectory writes. Stage II (section 3.5; METHODS 9.5)
prefers, at each sub-query of the cheapest right path, the decision that it took, by its log-probability against that
of the other one, each less what stage I's model gave it; these are computed once, before anything changes.

Differs from the paper:
- All weights are trained there, on some thousand questions: stage I at 1e-5 for one epoch, stage II at 5e-7 for eight,
  both with steps of 4, a cosine and a warm-up of a tenth. Here some dozens of questions change an adapter that begins
  at nothing: it takes rates about twenty and a hundred times as high, and ends once the held-out loss falls no more.
- Stage II may take the cheapest right paths of the untrained model, those of stage I, in place of the ones under the
  model that stage I has made: exploring again with its adapter, for a run of its own, takes as long as the first time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

from adaptrag_cli.disk import replace_durably
from adaptrag_cli.errors import ConfigError, RunCancelled
from adaptrag_cli.events import Record
from adaptrag_cli.learning.examples import (
    CUT_OFF,
    Example,
    Preference,
    TurnTokens,
    example_of,
    held_out_questions,
    preference_of,
)
from adaptrag_cli.learning.fitting import Recipe
from adaptrag_cli.learning.losses import BETA, IGNORED, calibration_losses, fork_logprobs, token_cross_entropy
from adaptrag_cli.learning.pairs import PairsOf, lacks_sentences, make_pairs
from adaptrag_cli.learning.trajectories import Trajectory, answer_only
from adaptrag_cli.learning.tree import Tree

if TYPE_CHECKING:
    import torch

Objective = Literal["all", "answer-only"]
RECIPES: Mapping[str, Recipe] = {
    "imitation": Recipe(learning_rate=2e-4, epochs=3),
    "calibration": Recipe(learning_rate=5e-5, epochs=2),
    "grpo": Recipe(learning_rate=1e-4, epochs=2, weight_decay=0.0),
}
MIN_QUESTIONS = 4
"""That were solved: fewer cannot be parted into what is learned and what tells whether it was."""
MIN_PAIRS = 4
REFERENCES = "references.jsonl"

Item = TypeVar("Item", Example, Preference)
Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True)
class Parted(Generic[Part]):
    """What is learned from, and what only tells how well."""

    train: tuple[Part, ...]
    held_out: tuple[Part, ...]
    too_long: int
    """Left out: texts of more tokens than the cut-off."""


class DecisionOdds(Record, frozen=True, kw_only=True):
    """How sure the decisions of right paths are, on questions that nothing was learned from."""

    pairs: int
    mean: float
    """Of log P(the path's decision) - log P(the other one), in nats."""
    right: float
    """Share in which the path's decision is the likelier one."""
    search: float | None
    """Mean of those that look up; None where there is none."""
    answer: float | None
    """Mean of those that answer from memory."""


def imitation_data(
    trajectories: Sequence[Trajectory], tokens: TurnTokens, *, seed: int, objective: Objective = "all"
) -> Parted[Example]:
    """Cut trajectories into tokens, and hold some questions out.

    Raises:
        ConfigError: too few questions were solved, or all are too long.
    """
    if objective == "answer-only":
        trajectories = [answer_only(trajectory) for trajectory in trajectories]
    parted = _parted([example_of(each, tokens) for each in trajectories], _held_out(trajectories, seed))
    if not parted.train or not parted.held_out:
        raise ConfigError(
            f"{parted.too_long} of {len(trajectories)} trajectories are longer than {CUT_OFF} tokens: too few are left",
            "synthesize with a smaller --top-k or --max-steps, or more questions",
        )
    return parted


def calibration_data(
    trees: Sequence[Tree],
    trajectories: Sequence[Trajectory],
    tokens: TurnTokens,
    *,
    seed: int,
    whole: bool,
    pairs: PairsOf = "path",
) -> Parted[Preference]:
    """Make pairs of trees, cut them into tokens, and hold the same questions out as stage I.

    Args:
        whole: the trees were explored beyond their first right path.

    Raises:
        ConfigError: the pairs need whole trees, too few questions were solved, there are too few pairs, or all prefer
            the same decision.
    """
    if not whole and (pairs == "all-nodes" or (pairs == "sentence" and any(map(lacks_sentences, trees)))):
        missing = "end at their first right path" if pairs == "all-nodes" else "lack answers that no path has needed"
        raise ConfigError(
            f"--pairs {pairs} needs whole trees, and these {missing}", "synthesize with --whole, or take --pairs path"
        )
    made = [preference_of(pair, tokens) for tree in trees for pair in make_pairs(tree, pairs)]
    parted = _parted(made, _held_out(trajectories, seed))
    more = "synthesize with more questions" + (", or take --pairs all-nodes" if whole and pairs == "path" else "")
    if len(parted.train) < MIN_PAIRS or not parted.held_out:
        raise ConfigError(
            f"{len(parted.train)} pairs to learn from and {len(parted.held_out)} to measure with are too few", more
        )
    searching = sum(item.prefers_retrieval for item in parted.train)
    if searching in (0, len(parted.train)):
        what = "look up" if searching else "answer from memory"
        raise ConfigError(f"all {len(parted.train)} pairs prefer to {what}: nothing else would be learned", more)
    return parted


def decisions_of(trees: Sequence[Tree], questions: Collection[str], tokens: TurnTokens) -> tuple[Preference, ...]:
    """The decisions on the cheapest right paths of some questions, each named by its user's turn."""
    made = [preference_of(pair, tokens) for tree in trees for pair in make_pairs(tree, "path")]
    return tuple(each for each in made if each.question in questions and len(each) <= CUT_OFF)


def imitation_loss(model: Any, example: Example) -> torch.Tensor:
    """Mean cross-entropy of the learned tokens. Logits are computed of those alone, for they take most memory."""
    import torch

    device = next(model.parameters()).device
    learned = [at for at, label in enumerate(example.labels) if label != IGNORED]
    last = len(example) - 1  # nothing is learned behind it, but labels are shifted by one
    kept = torch.tensor([*(at - 1 for at in learned), last], device=device)
    ids = torch.tensor([example.token_ids], device=device)
    logits = model(input_ids=ids, use_cache=False, logits_to_keep=kept).logits
    labels = torch.tensor([[IGNORED, *(example.labels[at] for at in learned)]], device=device)
    return token_cross_entropy(logits, labels)


class References:
    """What the model gave each continuation before it was changed, computed once and kept in a folder."""

    def __init__(self, folder: Path, digest: str, model: Any) -> None:
        """Take up what was computed; `digest` is that of the model with the adapter it begins with."""
        self._model = model
        self._path = folder / REFERENCES
        folder.mkdir(parents=True, exist_ok=True)
        self._known = _read_references(self._path, digest)
        rows = ([digest], *([key, *both] for key, both in self._known.items()))
        replace_durably(self._path, b"".join(msgspec.json.encode(row) + b"\n" for row in rows))

    def compute(
        self, preferences: Sequence[Preference], *, should_stop: Callable[[], bool] = lambda: False
    ) -> list[tuple[float, float]]:
        """Log-probabilities of the preferred and the rejected continuation of each, from the model as it is now.

        Raises:
            RunCancelled: the person stopped it; what was computed is kept.
        """
        found = []
        with self._path.open("ab") as file:
            for preference in preferences:
                _stop_if(should_stop())
                key = _key_of(preference)
                if key not in self._known:
                    self._known[key] = measured_fork(self._model, preference)
                    file.write(msgspec.json.encode([key, *self._known[key]]) + b"\n")
                    file.flush()
                found.append(self._known[key])
        return found


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """A pair with what the reference gives it."""

    preference: Preference
    reference: tuple[float, float]

    def __len__(self) -> int:
        return len(self.preference)


def calibration_loss(model: Any, item: Calibrated, *, beta: float = BETA) -> torch.Tensor:
    """The loss of one pair; its two continuations share the pass over their prefix."""
    preferred, rejected = fork_logprobs(model, item.preference.fork)
    references = (preferred.new_tensor([value]) for value in item.reference)
    return calibration_losses(preferred[None], rejected[None], *references, beta=beta)[0]


def measured_fork(model: Any, preference: Preference) -> tuple[float, float]:
    """Log-probabilities of both continuations, as numbers."""
    import torch

    with torch.no_grad():
        preferred, rejected = fork_logprobs(model, preference.fork)
    return preferred.item(), rejected.item()


def measured_forks(
    model: Any, preferences: Sequence[Preference], *, should_stop: Callable[[], bool] = lambda: False
) -> list[tuple[float, float]]:
    """Log-probabilities of both continuations of each, from the model as it is now.

    Raises:
        RunCancelled: the person stopped it.
    """
    found = []
    for preference in preferences:
        _stop_if(should_stop())
        found.append(measured_fork(model, preference))
    return found


def decision_odds(preferences: Sequence[Preference], logprobs: Sequence[tuple[float, float]]) -> DecisionOdds | None:
    """Sum up what a model makes of decisions; None where there is none."""
    if not preferences:
        return None
    odds = [preferred - rejected for preferred, rejected in logprobs]

    def mean(searching: bool) -> float | None:
        own = [each for each, item in zip(odds, preferences, strict=True) if item.prefers_retrieval is searching]
        return sum(own) / len(own) if own else None

    return DecisionOdds(
        pairs=len(odds),
        mean=sum(odds) / len(odds),
        right=sum(each > 0 for each in odds) / len(odds),
        search=mean(True),
        answer=mean(False),
    )


def _stop_if(is_to_stop: bool) -> None:
    if is_to_stop:
        raise RunCancelled("stopped while decisions were measured", "go on with the same command and --resume")


def _held_out(trajectories: Sequence[Trajectory], seed: int) -> frozenset[str]:
    questions = {trajectory.user_text for trajectory in trajectories}
    if len(questions) < MIN_QUESTIONS:
        raise ConfigError(
            f"{len(questions)} questions were solved, and {MIN_QUESTIONS} are needed to learn from",
            "synthesize with more questions, or with a better --teacher",
        )
    return held_out_questions(questions, seed=seed)


def _parted(items: Sequence[Item], held_out: frozenset[str]) -> Parted[Item]:
    short = [item for item in items if len(item) <= CUT_OFF]
    return Parted(
        train=tuple(item for item in short if item.question not in held_out),
        held_out=tuple(item for item in short if item.question in held_out),
        too_long=len(items) - len(short),
    )


def _key_of(preference: Preference) -> str:
    return hashlib.sha256(repr(preference.fork).encode()).hexdigest()[:16]


def _read_references(path: Path, digest: str) -> dict[str, tuple[float, float]]:
    """What stands in the file, where it is of this model; a torn last line is left out."""
    try:
        first, *lines = path.read_bytes().splitlines()
        if msgspec.json.decode(first) != [digest]:
            return {}
        return dict(_whole_rows(lines))
    except (OSError, ValueError, msgspec.DecodeError):
        return {}


def _whole_rows(lines: Sequence[bytes]) -> Iterator[tuple[str, tuple[float, float]]]:
    for line in lines:
        try:
            key, preferred, rejected = msgspec.json.decode(line, type=tuple[str, float, float])
        except msgspec.DecodeError:
            return
        yield key, (preferred, rejected)
