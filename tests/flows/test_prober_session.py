"""A session with a prober: which one is taken, and what is refused before a gigabyte is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import ConfigError, ModelError
from adaptrag_cli.events import ProbeMeasured, RunFinished, WarningRaised
from adaptrag_cli.models.files import locate_model
from adaptrag_cli.probing.files import prober_path, write_prober
from adaptrag_cli.session.session import Session, open_session
from adaptrag_cli.strategies.base import load_strategy
from adaptrag_cli.strategies.rationales import written_with
from fakes import ScriptedModel, reply
from lamp import ANGLES, DOCUMENTS, QUERY
from plane import PlaneEncoder, plane_index
from probers import prober, sign_weights

Open = Callable[..., Session]
MADE = {"width": 4, "layer_count": 2, "layers": {1: sign_weights(4)}}


@pytest.fixture
def loads() -> list[dict[str, object]]:
    """How the model was loaded, each time."""
    return []


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loads: list[dict[str, object]]) -> Open:
    """Open a session over one index, with a scripted model in the place of a file."""
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "tiny.gguf"
    path.write_bytes(b"GGUF" + bytes(64))
    encoder = PlaneEncoder(tmp_path / "encoder", ANGLES)
    plane_index(tmp_path, DOCUMENTS, encoder)
    model = ScriptedModel(gives_states=True).then(reply(" Ottilie did.\nAnswer: Ottilie", states=(1, 3, 2, 2)))

    def load(*_: object, **how: object) -> tuple[ScriptedModel]:
        loads.append(how)
        return (model,)

    monkeypatch.setattr("adaptrag_cli.models.llama.load_llama_lanes", load)
    monkeypatch.setattr("adaptrag_cli.models.encoder.load_encoder", lambda *_, **__: encoder)

    def open_with(**flags: object) -> Session:
        given = {"models.answer": str(path), "models.dir": tmp_path / "models", "index.dir": tmp_path / "indexes"}
        flags = {f"ask.{name}": value for name, value in {"strategy": "probing", **flags}.items()}
        return open_session(load_settings(flags=given | flags))

    return open_with


@pytest.fixture
def fingerprint(opened: Open, tmp_path: Path) -> str:
    return locate_model(str(tmp_path / "models" / "tiny.gguf"), tmp_path / "models").fingerprint


def trained(tmp_path: Path, name: str, **facts: object) -> None:
    write_prober(prober_path(tmp_path / "models", name), prober(**{**MADE, **facts}))


def test_the_prober_of_the_model_is_taken_and_named(opened, fingerprint, tmp_path, loads):
    trained(tmp_path, "mine", model_fingerprint=fingerprint)
    session = opened()
    assert loads[0]["signals"] is True
    row = next(row for row in session.settings if row.name == "prober")
    assert (row.value, row.origin) == ("mine", "default of probing")
    events = list(session.ask(QUERY))
    assert [layer.layer for e in events if isinstance(e, ProbeMeasured) for layer in e.layers] == [1]
    end = events[-1]
    assert isinstance(end, RunFinished)
    assert end.answer == "Ottilie"


def test_a_named_prober_is_taken(opened, fingerprint, tmp_path):
    for name in ("first", "second"):
        trained(tmp_path, name, model_fingerprint=fingerprint)
    row = next(row for row in opened(prober="first").settings if row.name == "prober")
    assert (row.value, row.origin) == ("first", "--prober")


def test_texts_that_are_written_otherwise_than_those_it_learned_from_are_told(opened, fingerprint, tmp_path):
    options = load_strategy("probing").defaults
    same = written_with("answer", options)
    trained(tmp_path, "mine", model_fingerprint=fingerprint, report={"settings": same | {"context_length": None}})
    assert opened().warnings == ()
    warning = only_warning(opened(examples=0, top_k=3))
    assert warning.code == "prober_settings"
    assert (
        "prober 'mine' has learned from texts written at top_k 5 and not 3, at examples 4 and not 0" in warning.message
    )
    assert "with another prompt: what it says of these is a guess" in warning.message
    trained(tmp_path, "mine", model_fingerprint=fingerprint, report={"settings": "none"})
    assert opened(examples=0).warnings == ()


def only_warning(session: Session) -> WarningRaised:
    (warning,) = session.warnings
    return warning


def test_without_a_prober_nothing_is_loaded(opened, loads):
    with pytest.raises(
        ConfigError, match="no prober was trained that reads the states of rationale and answer of tiny"
    ):
        opened()
    with pytest.raises(ConfigError, match="no prober was trained that reads the states of the question of tiny"):
        opened(strategy="uar")
    assert loads == []


def test_a_prober_of_another_quantisation_is_refused(opened, fingerprint, tmp_path, loads):
    trained(tmp_path, "mine")
    with pytest.raises(ConfigError, match=r"^prober 'mine' was trained on tiny \(.*\), and tiny.gguf \(.*\) answers$"):
        opened(prober="mine")
    assert loads == []


def test_a_prober_of_the_other_kind_is_refused(opened, fingerprint, tmp_path):
    trained(tmp_path, "mine", model_fingerprint=fingerprint)
    with pytest.raises(ConfigError, match="prober 'mine' is of kind 'answer', and one of kind 'question' is asked"):
        opened(strategy="uar", prober="mine")


def test_a_prober_of_more_layers_than_the_model_has_is_refused(opened, fingerprint, tmp_path):
    trained(tmp_path, "mine", model_fingerprint=fingerprint, layer_count=24)
    with pytest.raises(ModelError, match="prober 'mine' is for a model of 24 layers, and scripted has 2"):
        opened()


def test_a_broken_prober_is_refused(opened, fingerprint, tmp_path, loads):
    trained(tmp_path, "mine", model_fingerprint=fingerprint)
    path = prober_path(tmp_path / "models", "mine")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ModelError, match="is no prober"):
        opened(prober="mine")
    assert loads == []


def test_other_strategies_need_no_prober(opened, loads):
    assert opened(strategy="always").resources.prober is None
    assert loads[0]["signals"] is False
