"""The weights of the user's own model file in torch, and a small trainable change of them beside (LoRA).

transformers takes the weights out of the GGUF file in single precision, so what is learned is learned about the very
numbers that llama.cpp answers with, but for its rounding of what flows between the layers.
"""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaptrag_cli.errors import ConfigError, ModelError
from adaptrag_cli.events import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The linear maps of a layer: those of the attention, and the three of the MLP."""
_PACKAGES = ("peft", "gguf", "accelerate")
_NAME = "default"
_ANOTHER = "train another --model, such as one of: adaptrag models list"


class LoraShape(Record, frozen=True, kw_only=True):
    """How large the change is: to each weight W of (out, in), `alpha` / `rank` times B A is added."""

    rank: int = 16
    alpha: int = 32
    targets: tuple[str, ...] = TARGETS


@dataclass(frozen=True, kw_only=True, eq=False)
class LoraPair:
    """The change of one weight, before it is scaled."""

    a: NDArray[np.float32]
    """(rank, in)"""
    b: NDArray[np.float32]
    """(out, rank)"""


LoraWeights = Mapping[str, LoraPair]
"""By the name of the module in transformers, such as `model.layers.0.self_attn.q_proj`."""


def require_training_packages() -> None:
    """Check that what the extra installs is there.

    Raises:
        ConfigError: it is not; says how to install it.
    """
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"training needs packages that are not installed: {', '.join(missing)}",
            "pip install 'adaptrag-cli[train]'",
        )


def training_device(gpu_layers: str) -> str:
    """Where to train: on a GPU where torch finds one, unless no layer is to be on one (`--gpu-layers 0`)."""
    import torch

    return "cuda" if gpu_layers != "0" and torch.cuda.is_available() else "cpu"


def load_base(path: Path, *, device: str = "cpu") -> Any:
    """Load the weights of a GGUF file as a causal transformer in single precision; none of them is trainable.

    Raises:
        ConfigError: the packages for training are not installed.
        ModelError: transformers cannot load such a file, or weights are not in it.
    """
    require_training_packages()
    import torch
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoModelForCausalLM

    unknown = (ValueError, KeyError, AttributeError, RuntimeError, NotImplementedError)
    broken = (OSError, struct.error, AssertionError, StrictDataclassError)  # cut off, or of sizes that do not fit
    try:
        with redirect_stderr(io.StringIO()), warnings.catch_warnings():  # bars, and what it says of its own versions
            warnings.simplefilter("ignore")
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=torch.float32, output_loading_info=True
            )
    except (*unknown, *broken) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(f"transformers cannot load {path}: {reason}", _ANOTHER) from error
    model, told = loaded
    missing = sorted(told["missing_keys"])
    if missing:  # transformers would fill them with random numbers
        raise ModelError(f"{path} lacks {len(missing)} weights of its model, such as {missing[0]}", _ANOTHER)
    return model.requires_grad_(False).to(device).eval()


def add_lora(model: Any, shape: LoraShape, *, seed: int) -> Any:
    """Put a trainable change beside the weights, at first one that changes nothing; A is drawn by the seed.

    Raises:
        ModelError: the layers have not the maps that are to be changed.
    """
    import torch

    present = {name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    missing = [target for target in shape.targets if target not in present]
    if missing:
        raise ModelError(
            f"the layers of a {model.config.model_type} model have no {', '.join(missing)} to train", _ANOTHER
        )
    with _silent(), torch.random.fork_rng(devices=[]):
        from peft import LoraConfig, get_peft_model

        torch.manual_seed(seed)
        config = LoraConfig(r=shape.rank, lora_alpha=shape.alpha, target_modules=list(shape.targets), lora_dropout=0.0)
        return get_peft_model(model, config)


def trainable(model: Any) -> dict[str, Any]:
    """The parameters that are trained, by name, in a fixed order."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def lora_weights(model: Any) -> LoraWeights:
    """Copy the change out of a model that has one."""
    return {
        name: LoraPair(
            a=module.lora_A[_NAME].weight.detach().cpu().numpy().copy(),
            b=module.lora_B[_NAME].weight.detach().cpu().numpy().copy(),
        )
        for name, module in _changed(model)
    }


def set_lora_weights(model: Any, weights: LoraWeights) -> None:
    """Copy a change into a model that has one of the same shape.

    Raises:
        ModelError: it is for other modules, or of another rank.
    """
    import torch

    modules = dict(_changed(model))
    if modules.keys() != weights.keys():
        raise ModelError("the adapter changes other weights than are trained", "begin with another --adapter-from")
    with torch.no_grad():
        for name, pair in weights.items():
            for parameter, array in ((modules[name].lora_A, pair.a), (modules[name].lora_B, pair.b)):
                weight = parameter[_NAME].weight
                if weight.shape != array.shape:
                    raise ModelError(
                        f"the adapter's {name} is of shape {array.shape}, not {tuple(weight.shape)}",
                        "begin with another --adapter-from",
                    )
                weight.copy_(torch.from_numpy(array))


@contextmanager
def with_weights(model: Any, weights: LoraWeights) -> Iterator[None]:
    """Let another change stand in place of a model's own for a while."""
    own = lora_weights(model)
    set_lora_weights(model, weights)
    try:
        yield
    finally:
        set_lora_weights(model, own)


def save_memory(model: Any, is_long: bool) -> None:
    """Compute inner values again on the way back, in place of keeping them: slower by a third, for long texts only."""
    base = model.get_base_model()
    if is_long:
        base.activation_checkpointing_enable({"use_reentrant": False})
    else:
        base.activation_checkpointing_disable()


def _changed(model: Any) -> Iterator[tuple[str, Any]]:
    for name, module in model.get_base_model().named_modules():
        if _NAME in getattr(module, "lora_A", {}):
            yield name, module


@contextmanager
def _silent() -> Iterator[None]:
    """peft asks transformers for what this version of it has renamed, and is told so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield
