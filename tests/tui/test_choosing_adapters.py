"""Choosing an adapter on the screen: only those of the model are offered, and another model lets it go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adapters import write_header
from adaptrag_cli.models.adapters import adapter_path
from adaptrag_cli.models.catalogue import find_entry
from adaptrag_cli.models.files import locate_model
from adaptrag_cli.service.protocol import Prepare
from adaptrag_cli.tui.launch import Launch
from adaptrag_cli.tui.screens.picker import Picker
from driving import drive, driving

MODEL = "qwen2.5-coder-0.5b-instruct"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with the header of the 0.5B, an adapter of it, one of another tool, and one of another model."""
    entry = find_entry(MODEL)
    path = write_header(tmp_path / "models" / entry.file, general__type="model", adapter__type=None)
    os.truncate(path, entry.size_bytes or 0)
    base = locate_model(MODEL, path.parent).fingerprint
    write_header(adapter_path(path.parent, "mine"), adaptrag__base__fingerprint=base)
    write_header(adapter_path(path.parent, "tool"), adaptrag__base__fingerprint=None)
    write_header(adapter_path(path.parent, "other"))
    return path.parent


def test_an_adapter_is_chosen_and_goes_with_its_model(tmp_path: Path, models: Path):
    flags = {"models.answer": MODEL, "models.dir": str(models)}

    async def body():
        async with driving(tmp_path, launch=Launch(flags=flags)) as it:

            async def choose(*downs: int) -> str:
                await it.pilot.press("m")
                shown = ""
                for count in downs:
                    before = it.app.screen
                    await it.until(lambda: isinstance(it.app.screen, Picker))
                    shown = it.text()
                    await it.pilot.press(*["down"] * count, "enter")
                    await it.until(lambda before=before: it.app.screen is not before)
                await it.until(lambda: it.app.screen is it.main and it.is_idle)
                return shown

            await it.pilot.press("escape")
            shown = await choose(2, 1)
            assert "mine" in shown and "tool" in shown and "made by another tool" in shown
            assert "other " not in shown.replace("another ", "")
            chosen = it.main.desk.choices["models.adapter"]
            assert chosen in {"mine", "tool"}
            assert isinstance(it.engine.requests[-1], Prepare)
            assert it.engine.requests[-1].flags["models.adapter"] == chosen
            await choose(1, 0)
            assert it.main.desk.choices == {**flags, "models.adapter": "none"}

    drive(body())
