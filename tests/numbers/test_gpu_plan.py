"""Layers asked for, layers planned, and what the user is told."""

from __future__ import annotations

import pytest

from adaptrag_cli.errors import ConfigError, ModelError
from adaptrag_cli.models.gpu import GpuPlan, plan_gpu
from adaptrag_cli.models.llama import open_or_fall_back


@pytest.mark.parametrize(
    ("requested", "can_offload", "layers", "reason"),
    [
        ("auto", True, -1, "can use the GPU"),
        ("auto", False, 0, "no GPU support"),
        ("all", True, -1, "as asked"),
        ("12", True, 12, "as asked"),
        ("0", True, 0, "the CPU was asked for"),
        ("0", False, 0, "the CPU was asked for"),
        ("all", False, 0, "all layers on the GPU were asked for, but"),
        ("12", False, 0, "12 layers on the GPU were asked for, but"),
    ],
)
def test_plan(requested: str, can_offload: bool, layers: int, reason: str):
    plan = plan_gpu(requested, can_offload=can_offload)
    assert plan.layers == layers
    assert reason in plan.reason


@pytest.mark.parametrize("requested", ["", "-1", "many", "1.5", "²"])
def test_anything_else_is_refused(requested: str):
    with pytest.raises(ConfigError, match="is not a number of layers"):
        plan_gpu(requested, can_offload=True)


def test_a_load_that_fails_on_the_gpu_is_tried_once_on_the_cpu():
    tried = []

    def open_with(layers: int) -> str:
        tried.append(layers)
        if layers:
            raise ModelError("out of memory")
        return "context"

    context, reason = open_or_fall_back(open_with, GpuPlan(layers=-1, reason="as asked"))
    assert (context, tried) == ("context", [-1, 0])
    assert reason == "running on the CPU, because loading with GPU layers failed: out of memory"


def test_a_load_that_fails_on_the_cpu_is_an_error():
    def open_with(layers: int) -> str:
        raise ModelError(f"broken with {layers}")

    with pytest.raises(ModelError, match="broken with 0"):
        open_or_fall_back(open_with, GpuPlan(layers=0, reason="the CPU was asked for"))
