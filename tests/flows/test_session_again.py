"""What a session takes over from the one before, and what it loads anew: real index, scripted models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import AdaptRAGError, ModelError
from adaptrag_cli.events import ChunksSelected, RunFinished, RunStarted
from adaptrag_cli.index.build import BuildOptions, build_index
from adaptrag_cli.models.catalogue import find_entry
from adaptrag_cli.session.session import Session, open_session
from adaptrag_cli.strategies.base import Reuse
from fakes import ScriptedModel
from lamp import ANGLES, DOCUMENTS, QUERY, unsure_model
from plane import PlaneEncoder, plane_index

MODEL, OTHER_MODEL = "qwen2.5-coder-0.5b-instruct", "smollm2-135m-instruct"
Open = Callable[..., Session]


class Loads(list[ScriptedModel]):
    """Every model that was loaded, in order; at no time may two be open."""

    error: ModelError | None = None

    def load(self, path: Path, **_: Any) -> ScriptedModel:
        assert all(model.is_closed for model in self), "two models in memory"
        if self.error is not None:
            raise self.error
        self.append(unsure_model(ScriptedModel(name=path.stem)))
        return self[-1]


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Loads:
    loads = Loads()
    monkeypatch.setattr("adaptrag_cli.models.llama.load_llama_lanes", lambda *a, **k: (loads.load(*a, **k),))
    return loads


@pytest.fixture
def opened(tmp_path: Path, loads: Loads, monkeypatch: pytest.MonkeyPatch) -> Open:
    (tmp_path / "models").mkdir()
    for name in (MODEL, OTHER_MODEL):
        with (tmp_path / "models" / find_entry(name).file).open("wb") as file:
            file.truncate(find_entry(name).size_bytes or 0)  # a hole of the right size
    encoder = PlaneEncoder(tmp_path / "encoder", ANGLES)
    plane_index(tmp_path, DOCUMENTS, encoder)
    # A new object each time, as the real one gives.
    monkeypatch.setattr(
        "adaptrag_cli.models.encoder.load_encoder", lambda *_, **__: PlaneEncoder(tmp_path / "encoder", ANGLES)
    )

    def open_with(keep: Session | None = None, /, notes: list[str] | None = None, **flags: object) -> Session:
        given = {"models.answer": MODEL, "models.dir": tmp_path / "models", "index.dir": tmp_path / "indexes"}
        settings = load_settings(flags=given | {k.replace("__", "."): v for k, v in flags.items()})
        return open_session(settings, keep=keep, on_note=[].append if notes is None else notes.append)

    return open_with


def finished(session: Session) -> RunFinished:
    end = list(session.ask(QUERY))[-1]
    assert isinstance(end, RunFinished)
    return end


def test_a_strategy_that_looks_into_the_model_loads_it_anew(opened: Open, loads: Loads):
    first = opened()
    assert first.load is not None and not first.load.signals
    second = opened(first, ask__strategy="dragin")  # requires attention
    assert second.load is not None and second.load.signals
    opened(second, ask__strategy="etc")  # wants it
    assert len(loads) == 2


def test_another_threshold_or_strategy_loads_nothing(opened: Open, loads: Loads):
    notes: list[str] = []
    first = opened(notes=notes)
    assert finished(first).answer_source == "documents"
    second = opened(first, notes=notes, ask__threshold=0.9)
    third = opened(second, notes=notes, ask__strategy="always", ask__top_k=1)
    assert (len(loads), notes) == (1, [f"loading {MODEL}"])
    assert first.model is second.model is third.model
    assert first.resources.retriever is second.resources.retriever is third.resources.retriever
    assert (first.is_closed, second.is_closed, third.is_closed) == (True, True, False)
    assert not loads[0].is_closed
    assert finished(third).chunk_ids == ("lamp.md#0",)
    first.close()  # was taken over, so there is nothing to free
    assert not loads[0].is_closed
    third.close()
    assert loads[0].is_closed


@pytest.mark.parametrize(
    "change", [{"models__context_length": 512}, {"models__gpu_layers": "all"}, {"models__threads": 1}]
)
def test_a_setting_of_the_model_loads_it_anew_once_the_old_one_is_gone(opened: Open, loads: Loads, change):
    first = opened()
    second = opened(first, **change)
    assert [model.is_closed for model in loads] == [True, False]  # and never both open: see `Loads`
    assert second.resources.retriever is first.resources.retriever
    again = opened(second, **change)
    assert len(loads) == 2
    assert again.model is loads[1]


def test_another_model_is_loaded_in_the_place_of_the_first(opened: Open, loads: Loads):
    notes: list[str] = []
    first = opened()
    second = opened(first, notes=notes, models__answer=OTHER_MODEL)
    assert [model.is_closed for model in loads] == [True, False]
    assert notes == [f"loading {OTHER_MODEL}"]
    started = next(second.ask(QUERY))
    assert isinstance(started, RunStarted)
    assert started.model == find_entry(OTHER_MODEL).file.removesuffix(".gguf")
    assert [w.code for w in second.warnings] == ["threshold_uncalibrated"]
    assert second.resources.draft_odds == ()


def test_a_file_that_was_replaced_is_loaded_anew(opened: Open, loads: Loads, tmp_path: Path):
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"GGUF" + bytes(64))
    first = opened(models__answer=str(mine))
    mine.write_bytes(b"GGUF" + bytes(32) + b"other" + bytes(27))
    opened(first, models__answer=str(mine))
    assert [model.is_closed for model in loads] == [True, False]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ask__strategy": "allways"},
        {"index__name": "elsewhere"},
        {"models__answer": "qwen2.5-coder-1.5b-instruct"},
        {"models__answer": "none.gguf"},
    ],
)
def test_what_is_refused_early_leaves_the_session_as_it_was(opened: Open, loads: Loads, wrong):
    first = opened()
    with pytest.raises(AdaptRAGError):
        opened(first, **wrong)
    assert (first.is_closed, loads[0].is_closed) == (False, False)
    assert finished(first).answer == "Ottilie Brandt"
    opened(first)
    assert len(loads) == 1


def test_a_model_that_does_not_load_leaves_none_and_the_next_one_starts_afresh(opened: Open, loads: Loads):
    first = opened()
    loads.error = ModelError("no memory")
    with pytest.raises(ModelError, match="no memory"):
        opened(first, models__context_length=8192)
    assert (first.is_closed, loads[0].is_closed) == (True, True)
    loads.error = None
    second = opened(first)
    assert len(loads) == 2
    assert second.model is loads[1]
    assert second.resources.retriever is first.resources.retriever
    assert finished(second).answer == "Ottilie Brandt"


def test_a_document_that_was_deleted_meanwhile_is_not_quoted(opened: Open, loads: Loads, tmp_path: Path):
    first = opened()
    assert first.freshness is not None and first.freshness.is_fresh
    (tmp_path / "corpus" / "lamp.md").unlink()
    second = opened(first)
    assert second.freshness is not None and second.freshness.deleted == ("lamp.md",)
    assert second.resources.retriever is not first.resources.retriever
    assert second.resources.retriever.encoder is first.resources.retriever.encoder
    assert [w.code for w in second.warnings] == ["index_not_fresh"]
    assert not [c for c in finished(second).chunk_ids if c.startswith("lamp.md")]
    assert len(loads) == 1


def test_an_index_that_was_updated_meanwhile_is_opened_anew(opened: Open, loads: Loads, tmp_path: Path):
    first = opened()
    (tmp_path / "corpus" / "more.txt").write_text("Ottilie Brandt lit it again.", encoding="utf-8")
    build_index(
        tmp_path / "corpus",
        name="plane",
        index_dir=tmp_path / "indexes",
        encoder=PlaneEncoder(tmp_path / "encoder", ANGLES),
        options=BuildOptions(),
    )
    second = opened(first, ask__top_n=5)
    assert first.store is not None and second.store is not None
    assert (first.store.chunk_count, second.store.chunk_count) == (4, 5)
    assert second.resources.retriever.encoder is first.resources.retriever.encoder
    selected = next(e for e in second.ask(QUERY) if isinstance(e, ChunksSelected))
    assert "more.txt" in {c.document for c in selected.candidates}
    assert len(loads) == 1


def test_another_encoder_is_not_mixed_up_with_the_old_one(opened: Open, tmp_path: Path, monkeypatch):
    first = opened()
    other = PlaneEncoder(tmp_path / "encoder", ANGLES)
    other.fingerprint = replace(other.fingerprint, file_sha256="f" * 64)
    monkeypatch.setattr("adaptrag_cli.models.encoder.load_encoder", lambda *_, **__: other)
    with pytest.raises(AdaptRAGError, match="was made with encoder"):
        opened(first)
    assert not first.is_closed


def test_without_an_index_there_is_no_store_and_no_freshness(opened: Open):
    session = opened(ask__strategy="never", ask__peek=False)
    assert (session.store, session.freshness) == (None, None)
    again = opened(session)
    assert again.store is not None
    assert again.model is session.model


def test_a_look_up_of_a_session_uses_its_settings_and_leaves_warnings_to_its_runs(
    opened: Open, loads: Loads, tmp_path: Path
):
    (tmp_path / "corpus" / "goats.txt").write_text("The goats are white, all of them.", encoding="utf-8")
    session = opened(ask__top_n=2, ask__top_k=1)
    run = list(session.ask(QUERY))
    calls = len(loads[0].calls)
    found = list(session.look_up(QUERY, reuse=Reuse.of_events(run)))
    assert len(loads[0].calls) == calls
    assert isinstance(found[0], RunStarted)
    assert found[0].settings == run[0].settings
    assert {type(e).__name__ for e in found} == {
        "RunStarted",
        "GenerationReused",
        "TokenGenerated",
        "PseudoContextWritten",
        "PathRetrieved",
        "ChunksSelected",
    }
    kept = [c.chunk_id for e in found if isinstance(e, ChunksSelected) for c in e.candidates if c.kept]
    assert kept == ["lamp.md#0"]


def test_another_selection_with_the_pseudo_context_at_hand_computes_no_vector(opened: Open, monkeypatch):
    first = opened()
    run = list(first.ask(QUERY))
    second = opened(first, ask__ais="sum", ask__retriever="hybrid", ask__top_n=3, ask__top_k=1)
    monkeypatch.setattr(PlaneEncoder, "encode_queries", lambda *_: pytest.fail("a text was embedded again"))
    found = list(second.look_up(QUERY, reuse=Reuse.of_events(run)))
    assert isinstance(found[-1], ChunksSelected)
    assert (found[-1].score_name, sum(c.kept for c in found[-1].candidates)) == ("sum", 1)


def test_closing_twice_frees_once(opened: Open, loads: Loads, monkeypatch):
    session = opened()
    session.close()
    monkeypatch.setattr(loads[0], "close", lambda: pytest.fail("closed again"))
    session.close()
