"""How a model is told from another: its name and fingerprint, alone or with an adapter."""

from __future__ import annotations

_JOINT = " + "


def name_with(model: str, adapter: str) -> str:
    """The name of a model that an adapter has changed."""
    return f"{model}{_JOINT}{adapter}"


def fingerprint_with(model: str, adapter: str) -> str:
    """The fingerprint of a model that an adapter has changed: neither alone decides its numbers."""
    return f"{model}+{adapter}"


def flags_of(name: str) -> str:
    """What is typed for a model of this name: `--model a`, or `--model a --adapter b`."""
    model, adapter = parted(name)
    return f"--model {model} --adapter {adapter}" if adapter else f"--model {model}"


def parted(name: str) -> tuple[str, str]:
    """The model and the adapter in a name; the adapter is empty where there is none."""
    model, joint, adapter = name.rpartition(_JOINT)
    if not joint or adapter.endswith(".gguf"):  # a file of that name, without an adapter
        return name, ""
    return model, adapter


def shortened(fingerprint: str, characters: int = 19) -> str:
    """A fingerprint for a line of text, both parts of one with an adapter: `sha256:0a1b2c...`."""
    return "+".join(f"{part[:characters]}..." if len(part) > characters else part for part in fingerprint.split("+"))
