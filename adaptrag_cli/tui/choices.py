"""What can be chosen: strategies, models and adapters on this machine, indexes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.config import NO_ADAPTER, load_settings
from adaptrag_cli.session.plan import index_dir_of, models_dir_of
from adaptrag_cli.strategies.base import load_strategy
from adaptrag_cli.strategies.table import strategy_names
from adaptrag_cli.tui.record import Flags
from adaptrag_cli.tui.screens.picker import Choice

if TYPE_CHECKING:
    from adaptrag_cli.models.adapters import AdapterFile


def offered(setting: str, flags: Flags, config_file: Path | None) -> list[Choice]:
    """What `setting` may be set to.

    Raises:
        AdaptRAGError: the settings or the indexes cannot be read.
    """
    settings = load_settings(flags=flags, config_file=config_file)
    if setting == "models.answer":
        return models(models_dir_of(settings))
    if setting == "models.adapter":
        return adapters(settings.models.answer, models_dir_of(settings))
    if setting == "index.name":
        return indexes(index_dir_of(settings))
    return strategies()


def strategies() -> list[Choice]:
    """All strategies, with what each does."""
    return [Choice(value=name, label=name, detail=load_strategy(name).summary) for name in strategy_names()]


def models(folder: Path) -> list[Choice]:
    """The answer models that are on this machine."""
    from adaptrag_cli.errors import ModelNotFound
    from adaptrag_cli.models.catalogue import ENTRIES
    from adaptrag_cli.models.files import locate_model

    found = []
    for entry in ENTRIES:
        if entry.kind != "answer":
            continue
        try:
            locate_model(entry.name, folder)
        except ModelNotFound:
            continue
        found.append(Choice(value=entry.name, label=entry.name, detail=entry.purpose))
    return found


def adapters(model: str, folder: Path) -> list[Choice]:
    """The adapters that go with a model, and none.

    Raises:
        AdaptRAGError: the model is not here.
    """
    from adaptrag_cli.models.adapters import fits, list_adapters
    from adaptrag_cli.models.files import locate_model

    file = locate_model(model, folder)
    found = [adapter for adapter in list_adapters(folder).files if fits(adapter, file)]
    none = Choice(value=NO_ADAPTER, label=NO_ADAPTER, detail="the model as it is")
    return [none, *(Choice(value=each.name, label=each.name, detail=_origin(each)) for each in found)]


def _origin(adapter: AdapterFile) -> str:
    return f"{adapter.stage}, {adapter.created[:10]}" if adapter.tells_base else "made by another tool"


def indexes(folder: Path) -> list[Choice]:
    """The indexes in a folder."""
    from adaptrag_cli.index.home import list_indexes

    return [Choice(value=summary.name, label=summary.name, detail=summary.path) for summary in list_indexes(folder)]
