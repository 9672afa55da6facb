"""How many layers go to the GPU, and why."""

from __future__ import annotations

from dataclasses import dataclass

from adaptrag_cli.errors import ConfigError

_REBUILD = "rebuild llama-cpp-python with a GPU backend"


@dataclass(frozen=True, kw_only=True)
class GpuPlan:
    """Layers to ask llama.cpp for, and what to tell the user."""

    layers: int
    """For `n_gpu_layers`: 0 is the CPU, -1 is all."""
    reason: str


def plan_gpu(requested: str, *, can_offload: bool) -> GpuPlan:
    """Turn `auto`, `all` or a number into a plan; a request that cannot be met says so.

    Raises:
        ConfigError: it is none of the three.
    """
    if requested not in {"auto", "all"} and not (requested.isascii() and requested.isdigit()):
        raise ConfigError(
            f"--gpu-layers {requested!r} is not a number of layers", "use auto, all or a number such as 20"
        )
    if requested == "auto":
        if can_offload:
            return GpuPlan(layers=-1, reason="this build can use the GPU")
        return GpuPlan(layers=0, reason="this build of llama.cpp has no GPU support, or no GPU was found")
    layers = -1 if requested == "all" else min(int(requested), 2**31 - 1)
    if layers == 0:
        return GpuPlan(layers=0, reason="the CPU was asked for")
    if not can_offload:
        what = "all layers" if layers < 0 else f"{layers} layers"
        return GpuPlan(
            layers=0,
            reason=f"{what} on the GPU were asked for, but this build of llama.cpp has no GPU support, "
            f"or no GPU was found: running on the CPU ({_REBUILD})",
        )
    return GpuPlan(layers=layers, reason="as asked")
