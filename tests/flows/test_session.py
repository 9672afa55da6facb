"""What a session opens, refuses and says before the first question: real index, scripted model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from adaptrag_cli.calibration import (
    Calibrated,
    FittedThreshold,
    FittedVerifier,
    Logistic,
    MeasuredWith,
    calibration_path,
    write_calibration,
)
from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import (
    ConfigError,
    ExitCode,
    IndexNotFound,
    IndexStale,
    IndexUnusable,
    ModelNotFound,
    UnknownName,
)
from adaptrag_cli.events import ChunkPeeked, DecisionMade, DraftOdds, RunFinished, RunStarted
from adaptrag_cli.index.build import BuildOptions, build_index
from adaptrag_cli.models.catalogue import find_entry
from adaptrag_cli.session.session import Session, open_session
from adaptrag_cli.strategies.base import load_strategy
from fakes import ScriptedModel
from lamp import ANGLES, DOCUMENTS, QUERY, unsure_model
from laws import check_laws
from plane import PlaneEncoder, plane_index

MODEL = "qwen2.5-coder-0.5b-instruct"
Open = Callable[..., Session]


@pytest.fixture
def model() -> ScriptedModel:
    return unsure_model()


@pytest.fixture
def encoder(tmp_path: Path) -> PlaneEncoder:
    return PlaneEncoder(tmp_path / "encoder", ANGLES)


@pytest.fixture
def opened(tmp_path: Path, model: ScriptedModel, encoder: PlaneEncoder, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Open a session over one index, with the scripted model in the place of the 0.5B."""
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / find_entry(MODEL).file
    with path.open("wb") as file:
        file.truncate(find_entry(MODEL).size_bytes or 0)  # a hole of the right size
    plane_index(tmp_path, DOCUMENTS, encoder)
    monkeypatch.setattr("adaptrag_cli.models.llama.load_llama_lanes", lambda *_, **__: (model,))
    monkeypatch.setattr("adaptrag_cli.models.encoder.load_encoder", lambda *_, **__: encoder)

    def open_with(**flags: object) -> Session:
        given = {"models.answer": MODEL, "models.dir": tmp_path / "models", "index.dir": tmp_path / "indexes"}
        return open_session(load_settings(flags=given | {k.replace("__", "."): v for k, v in flags.items()}))

    return open_with


def test_the_measured_threshold_is_used_and_its_origin_told(opened: Open):
    session = opened()
    threshold = find_entry(MODEL).calibration.threshold
    assert session.options.threshold == threshold
    row = next(row for row in session.settings if row.name == "threshold")
    assert (row.value, row.origin) == (threshold, "measured for this model")
    assert session.warnings == ()


@pytest.mark.parametrize("method", ["etc", "dragin", "flare"])
def test_the_measured_trigger_is_used_in_the_form_that_it_was_measured_in(opened: Open, method: str):
    def row(**flags: object) -> tuple[object, str]:
        session = opened(ask__strategy=method, **flags)
        return next((row.value, row.origin) for row in session.settings if row.name == "trigger")

    measured = find_entry(MODEL).calibration.triggers[method]
    default = load_strategy(method).defaults
    assert row() == (measured, "measured for this model")
    assert row(ask__trigger=0.5)[0] == 0.5
    other = "paper" if default.mode == "code" else "code"
    assert row(ask__mode=other) == (default.trigger, f"default of {method}")


def test_the_measured_odds_of_the_draft_are_told(opened: Open):
    decision = next(e for e in opened(ask__threshold=0.1).ask(QUERY) if isinstance(e, DecisionMade))
    assert decision.uncertainty == 0.5
    assert decision.draft_odds == DraftOdds(above=0.3, up_to=0.6, right=1, drafts=21)


def test_a_typed_threshold_wins(opened: Open):
    session = opened(ask__threshold=0.75)
    row = next(row for row in session.settings if row.name == "threshold")
    assert (session.options.threshold, row.origin) == (0.75, "--threshold")


def test_an_uncalibrated_model_uses_the_papers_threshold_and_says_so(opened: Open, tmp_path: Path):
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF" + bytes(64))
    session = opened(models__answer=str(other))
    assert session.options.threshold == 0.001
    assert [w.code for w in session.warnings] == ["threshold_uncalibrated"]


def test_a_question_runs_and_its_trace_holds_the_settings(opened: Open):
    events = list(opened(ask__top_k=2).ask(QUERY))
    check_laws(events)
    started, end = events[0], events[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(end, RunFinished)
    assert {"threshold", "top_k", "ais", "retriever"} <= {row.name for row in started.settings}
    assert end.answer == "Ottilie Brandt"


def test_names_are_checked_before_anything_is_loaded(opened: Open, monkeypatch: pytest.MonkeyPatch):
    def never(*_: object, **__: object) -> ScriptedModel:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("adaptrag_cli.models.llama.load_llama_lanes", never)
    with pytest.raises(UnknownName, match="did you mean 'always'"):
        opened(ask__strategy="allways")
    with pytest.raises(IndexNotFound):
        opened(index__name="elsewhere")
    with pytest.raises(ModelNotFound):
        opened(models__answer="smollm2-135m-instruct")
    with pytest.raises(ConfigError, match="elsewhere holds no evaluation"):
        opened(ask__strategy="adaptive-rag", ask__labels=Path("elsewhere"))


def test_changed_and_deleted_files_are_told_with_the_remedy(opened: Open, tmp_path: Path):
    (tmp_path / "corpus" / "lamp.md").unlink()
    (tmp_path / "corpus" / "goats.txt").write_text("The goats are white, all of them.", encoding="utf-8")
    warning = next(w for w in opened().warnings if w.code == "index_not_fresh")
    assert "1 file changed, 1 file deleted since indexing" in warning.message
    assert "adaptrag index" in warning.message


def test_a_deleted_document_is_not_quoted(opened: Open, tmp_path: Path):
    (tmp_path / "corpus" / "lamp.md").unlink()
    end = list(opened(ask__top_k=2).ask(QUERY))[-1]
    assert isinstance(end, RunFinished)
    assert not [chunk_id for chunk_id in end.chunk_ids if chunk_id.startswith("lamp.md")]


def test_documents_that_may_all_be_deleted_are_not_quoted(opened: Open, tmp_path: Path):
    shutil.rmtree(tmp_path / "corpus")
    with pytest.raises(IndexStale, match="is not there"):
        opened()
    assert [w.code for w in opened(ask__strategy="never").warnings] == ["no_peek"]


def test_another_encoder_is_refused_in_one_line_that_names_the_command(opened: Open, encoder: PlaneEncoder):
    encoder.fingerprint = replace(encoder.fingerprint, file_sha256="f" * 64)
    with pytest.raises(IndexStale) as failure:
        opened()
    assert "adaptrag index" in failure.value.hint


def test_several_indexes_ask_for_a_name(opened: Open, tmp_path: Path):
    shutil.copytree(tmp_path / "indexes" / "plane", tmp_path / "indexes" / "second")
    with pytest.raises(ConfigError, match="several indexes"):
        opened()


def test_never_shows_a_peek_but_no_trouble_with_an_index_stops_it(opened: Open, tmp_path: Path, encoder: PlaneEncoder):
    assert [e for e in opened(ask__strategy="never").ask(QUERY) if isinstance(e, ChunkPeeked)]
    encoder.fingerprint = replace(encoder.fingerprint, file_sha256="f" * 64)
    session = opened(ask__strategy="never")
    assert [w.code for w in session.warnings] == ["no_peek"]
    assert isinstance(list(session.ask(QUERY))[-1], RunFinished)
    assert opened(ask__strategy="never", ask__peek=False).warnings == ()
    shutil.rmtree(tmp_path / "indexes")
    assert opened(ask__strategy="never").warnings == ()


def test_an_index_that_was_named_must_open_even_for_never(opened: Open):
    with pytest.raises(IndexNotFound):
        opened(ask__strategy="never", index__name="elsewhere")


def test_an_empty_index_is_refused_before_a_model_is_loaded(opened: Open, tmp_path: Path, encoder: PlaneEncoder):
    (tmp_path / "empty").mkdir()
    build_index(
        tmp_path / "empty", name="empty", index_dir=tmp_path / "indexes", encoder=encoder, options=BuildOptions()
    )
    assert opened().store.name == "plane"  # the only one that can be asked
    with pytest.raises(IndexUnusable, match="index 'empty' is empty: no document with text was found in") as caught:
        opened(index__name="empty")
    assert caught.value.exit_code == ExitCode.INDEX
    assert caught.value.hint.startswith("put some there and run: adaptrag index ")


def test_gpu_layers_that_were_asked_for_in_vain_are_told(opened: Open, model: ScriptedModel, monkeypatch):
    info = replace(model.info, gpu_layers_requested="all", gpu_reason="this build cannot offload")
    monkeypatch.setattr(ScriptedModel, "info", info)
    warning = next(w for w in opened().warnings if w.code == "gpu_not_used")
    assert warning.message == "this build cannot offload"


def test_notes_of_the_load_are_told(opened: Open, model: ScriptedModel, monkeypatch):
    monkeypatch.setattr(ScriptedModel, "info", replace(model.info, notes=("the model file has no chat template",)))
    assert [w.message for w in opened().warnings] == ["the model file has no chat template"]


# --- what was calibrated on this machine


def own_calibration(fingerprint: str, threshold: float = 0.8) -> Calibrated:
    return Calibrated(
        model=MODEL,
        model_fingerprint=fingerprint,
        encoder="plane",
        source="lamp (50 questions)",
        labelled=True,
        questions=50,
        question_digests=(),
        threshold=FittedThreshold(
            threshold=threshold, low=0.5, high=1.0, target="em", gain=0.05, gain_low=0.01, gain_high=0.09
        ),
        odds=(DraftOdds(above=0.0, up_to=None, right=20, drafts=50),),
        created="2026-11-28T00:00:00+00:00",
        adaptrag_version="0.1.0",
    )


def test_the_users_own_calibration_comes_before_the_measured_one(opened: Open, tmp_path: Path):
    fingerprint = opened().load.file.fingerprint
    write_calibration(calibration_path(tmp_path / "models", MODEL), own_calibration(fingerprint))
    session = opened()
    row = next(row for row in session.settings if row.name == "threshold")
    assert (row.value, row.origin) == (0.8, "calibrated on lamp (50 questions)")
    decision = next(e for e in session.ask(QUERY) if isinstance(e, DecisionMade))
    assert (decision.retrieve, decision.draft_odds) == (False, DraftOdds(above=0.0, up_to=None, right=20, drafts=50))


def test_a_calibration_of_another_file_is_not_used_and_that_is_told(opened: Open, tmp_path: Path):
    write_calibration(calibration_path(tmp_path / "models", MODEL), own_calibration("sha256:" + "1" * 64))
    session = opened()
    assert session.options.threshold == find_entry(MODEL).calibration.threshold
    assert [w.code for w in session.warnings] == ["calibration_not_used"]


def own_verifier(**changes: object) -> FittedVerifier:
    even = Logistic(features=(), weights=(), means=(), scales=(), intercept=0.0)
    verifier = FittedVerifier(
        encoder="plane",
        look_up="query",
        skip_margin=0.1,
        keep_margin=0.2,
        draft=even,
        before=even,
        after=even,
        draft_after=even,
        measured_with=MEASURED_WITH,
    )
    return msgspec.structs.replace(verifier, **changes)


MEASURED_WITH = MeasuredWith(retriever="dense", top_n=5, top_k=3, ais="cos")


def calibrate_for(opened: Open, tmp_path: Path, **changes: object) -> None:
    made = own_calibration(opened().load.file.fingerprint)
    path = calibration_path(tmp_path / "models", MODEL)
    write_calibration(path, msgspec.structs.replace(made, measured_with=MEASURED_WITH, **changes))


def told(session: Session) -> list[str]:
    return [w.message for w in session.warnings if w.code == "calibration_not_matching"]


REMEDY = "; calibrate with these settings: adaptrag calibrate"


@pytest.mark.parametrize(
    ("flags", "warnings"),
    [
        ({}, []),
        ({"ask__top_k": 3, "ask__style": "cited"}, []),
        ({"ask__top_k": 5}, ["the threshold was calibrated with top_k 3 (now 5)"]),
        (
            {"ask__retriever": "sparse", "ask__top_n": 8, "ask__ais": "sum"},
            ["the threshold was calibrated with retriever dense (now sparse), top_n 5 (now 8), ais cos (now sum)"],
        ),
        ({"ask__top_k": 5, "ask__threshold": 0.4}, []),  # the user's own word
        ({"ask__top_k": 5, "ask__strategy": "always"}, []),
    ],
)
def test_a_threshold_is_tied_to_what_it_was_measured_with(opened: Open, tmp_path: Path, flags, warnings):
    calibrate_for(opened, tmp_path)
    assert told(opened(**flags)) == [text + REMEDY for text in warnings]


def test_a_calibration_over_another_encoder_is_told(opened: Open, tmp_path: Path):
    calibrate_for(opened, tmp_path, encoder="another", alpha_line=(0.1, 0.4))
    assert told(opened()) == ["the threshold was calibrated with encoder another (now plane)" + REMEDY]
    assert told(opened(ask__ais="dynamic", ask__threshold=0.4)) == [
        "the query weight was fitted with encoder another (now plane)" + REMEDY
    ]


def test_a_calibration_that_does_not_tell_its_settings_is_used_as_it_is(opened: Open, tmp_path: Path):
    write_calibration(calibration_path(tmp_path / "models", MODEL), own_calibration(opened().load.file.fingerprint))
    assert told(opened(ask__top_k=5)) == []


def test_a_weighing_under_other_settings_decides_nothing(opened: Open, tmp_path: Path):
    calibrate_for(opened, tmp_path, verifier=own_verifier())
    fitting = opened(ask__strategy="dtr+verify", ask__ais="sum", ask__top_n=9)  # one path knows neither
    assert (told(fitting), fitting.resources.verifier) == ([], own_verifier())
    other = opened(ask__strategy="dtr+verify", ask__top_k=2)
    assert told(other) == ["the weighing was fitted with top_k 3 (now 2), so everything is looked up" + REMEDY]
    assert other.resources.verifier == own_verifier(skip_margin=1.0, keep_margin=1.0)
    calibrate_for(opened, tmp_path, verifier=own_verifier(look_up="both"))
    on_both = opened(ask__strategy="dtr+verify", ask__ais="sum")
    assert told(on_both) == ["the weighing was fitted with ais cos (now sum), so everything is looked up" + REMEDY]
