"""Which stages the figure of decisions links: one with that whose adapter it began with."""

from __future__ import annotations

import pytest

from adaptrag_cli.learning.fitting import Recipe
from adaptrag_cli.learning.lora import LoraShape
from adaptrag_cli.learning.run_figures import run_figures
from adaptrag_cli.learning.stages import DecisionOdds
from adaptrag_cli.learning.training_report import TrainingReport
from adaptrag_cli.report.training_figures import training_figures
from explored_trees import explored, manifest


def a_report(stage: str, begun: str, file: str, before: float, after: float, objective: str = "all") -> TrainingReport:
    """`file` is the fingerprint of the adapter that it began with."""
    odds = [DecisionOdds(pairs=4, mean=mean, right=0.5, search=None, answer=mean) for mean in (before, after)]
    return TrainingReport(
        stage=stage,
        adapter=f"run-{stage}",
        adapter_fingerprint=f"file of {stage}",
        run="run",
        base="base",
        base_fingerprint="sha256:base",
        adapter_from=begun,
        adapter_from_fingerprint=file,
        seed=0,
        shape=LoraShape(),
        recipe=Recipe(learning_rate=0.1, epochs=1),
        objective=objective,
        beta=None,
        train=4,
        held_out=4,
        too_long=0,
        steps=1,
        epochs=1,
        best_epoch=1,
        loss_before=1.0,
        loss_after=0.5,
        odds_before=odds[0],
        odds_after=odds[1],
        seconds=1.0,
        device="cpu",
        versions={},
    )


IMITATION = a_report("imitation", "", "", -1.0, 0.5)
CALIBRATION = a_report("calibration", "run-imitation", "file of imitation", 0.5, 2.0)


@pytest.mark.parametrize(
    ("reports", "lines"),
    [
        (
            {"imitation": IMITATION, "calibration": CALIBRATION},
            [{"untrained": -1.0, "imitation": 0.5, "calibration": 2.0}],
        ),
        (
            {
                "imitation": IMITATION,
                "calibration": CALIBRATION,
                "grpo": a_report("grpo", "run-imitation", "file of imitation", 0.5, 0.7, "reward"),
            },
            [{"untrained": -1.0, "imitation": 0.5, "calibration": 2.0}, {"imitation": 0.5, "grpo": 0.7}],
        ),
        (
            {
                "imitation": IMITATION,
                "imitation-answer-only": a_report("imitation", "", "", -1.0, -1.5, "answer-only"),
                "calibration": a_report("calibration", "run-imitation", "an earlier file", 0.25, 2.0),
            },
            [
                {"untrained": -1.0, "imitation": 0.5},
                {"untrained": -1.0, "imitation-answer-only": -1.5},
                {"run-imitation": 0.25, "calibration": 2.0},
            ],
        ),
        ({"calibration": CALIBRATION}, [{"run-imitation": 0.5, "calibration": 2.0}]),
    ],
    ids=["one-behind-the-other", "two-of-one", "begun-elsewhere", "alone"],
)
def test_a_line_leads_to_a_stage_from_what_it_began_with(
    reports: dict[str, TrainingReport], lines: list[dict[str, float]]
):
    *_, figure = training_figures(run_figures(manifest("q"), [explored("q")]), {}, reports)
    drawn = [dict(zip(series.x, series.y, strict=True)) for series in figure.series if series.name == "all"]
    assert drawn == lines
    told = {point: odds for line in lines for point, odds in line.items()}
    assert {row[0]: row[2] for row in figure.data.rows} == told
    assert len(figure.data.rows) == len(told)
