"""Adapters on disk and in a session: what a file says, what is refused in one line, and what is never mixed up."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters import write_header
from adaptrag_cli.calibration import Calibrated, calibration_path, write_calibration
from adaptrag_cli.config import load_settings
from adaptrag_cli.errors import AdaptRAGError, ConfigError, ModelError, ModelNotFound, UnknownName
from adaptrag_cli.evaluation.plan import parse_grid
from adaptrag_cli.identity import flags_of, name_with
from adaptrag_cli.models.adapters import (
    AdapterFile,
    adapter_path,
    adapters_dir,
    find_adapter,
    fitting_models,
    list_adapters,
    locate_adapted,
    read_adapter,
)
from adaptrag_cli.models.catalogue import find_entry
from adaptrag_cli.models.files import locate_model
from adaptrag_cli.models.gguf_header import MAX_BYTES, read_metadata, read_value
from adaptrag_cli.session.plan import model_load_of, plan_session
from adaptrag_cli.session.session import Session, open_session
from fakes import ScriptedModel
from lamp import ANGLES, DOCUMENTS, unsure_model
from plane import PlaneEncoder, plane_index

MODEL = "qwen2.5-coder-0.5b-instruct"
AS_A_MODEL = dict.fromkeys(("adapter__type", "adapter__lora__alpha", "adaptrag__base__fingerprint"))
OF_ANOTHER_TOOL = dict.fromkeys(
    f"adaptrag__{key}" for key in ("base__name", "base__fingerprint", "stage", "created", "report")
)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with the header of the 0.5B, in a file of its size."""
    entry = find_entry(MODEL)
    path = write_header(tmp_path / "models" / entry.file, general__type="model", **AS_A_MODEL)
    os.truncate(path, entry.size_bytes or 0)
    return path.parent


@pytest.fixture
def base(models: Path) -> str:
    """The fingerprint of the 0.5B."""
    return locate_model(MODEL, models).fingerprint


def put(models: Path, name: str, **keys: object) -> Path:
    return write_header(adapter_path(models, name), **keys)


def tell(models: Path, name: str, base: str, **keys: object) -> Path:
    """Put an adapter of the 0.5B there."""
    return put(models, name, adaptrag__base__name=MODEL, adaptrag__base__fingerprint=base, **keys)


# What a header says


def test_an_adapter_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = put(tmp_path, "mine", adaptrag__stage="calibration", adaptrag__report=json.dumps({"rank": 8, "loss": [2.5]}))
    assert read_adapter(path) == AdapterFile(
        name="mine",
        path=tmp_path / "adapters" / "mine.gguf",
        architecture="qwen2",
        base_name="base",
        base_fingerprint="sha256:base",
        stage="calibration",
        created="2026-11-28T20:00:00+00:00",
        size=path.stat().st_size,
        fingerprint=f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}",
        report={"rank": 8, "loss": [2.5]},
    )


def test_lists_are_stepped_over_and_numbers_read(tmp_path: Path) -> None:
    path = put(tmp_path, "x", words=["a", "longer one", ""], numbers=[1, 2, 3], last="seen")
    told = read_metadata(path)
    assert (told["words"], told["numbers"], told["last"]) == (None, None, "seen")
    assert told["adapter.lora.alpha"] == 8.0
    assert read_value(path, "last") == "seen"
    assert read_value(path, "missing") is None


HEAD = b"GGUF" + struct.pack("<IQ", 3, 0)
KEY = struct.pack("<Q", 1) + b"k"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it does not begin with GGUF"),
        (b"PK\x03\x04 a zip", "it does not begin with GGUF"),
        (b"GGUF", "it ends within its header"),
        (b"GGUF" + struct.pack("<I", 1), "its version is 1"),
        (b"GGUF" + struct.pack(">I", 3), "its version is 50331648"),
        (HEAD, "it ends within its header"),
        (HEAD + struct.pack("<Q", 1 << 60), "its header has 1,152,921,504,606,846,976 keys"),
        (HEAD + struct.pack("<QQ", 1, 1 << 60), "its header is longer than a header is"),
        (HEAD + struct.pack("<QQ", 1, MAX_BYTES // 2), "it ends within its header"),
        (HEAD + struct.pack("<Q", 1) + KEY + struct.pack("<I", 99), "a value is of the unknown type 99"),
        (HEAD + struct.pack("<Q", 1) + KEY + struct.pack("<IIQ", 9, 4, 1 << 62), "longer than a header is"),
        (HEAD + struct.pack("<Q", 1) + KEY + struct.pack("<IIQ", 9, 8, 1 << 62), "it ends within its header"),
        (HEAD + struct.pack("<Q", 1) + KEY + struct.pack("<IIQ", 9, 9, 1), "a value is of the unknown type 9"),
    ],
)
def test_a_header_that_lies_is_refused_in_one_line(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        read_adapter(path)
    assert caught.value.message.startswith(f"{path} is not a GGUF file that can be read: ")
    assert caught.value.message.endswith(reason)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"general__type": "model"}, "is no adapter: it says that it is of type 'model'"),
        ({"general__type": None}, "is no adapter: it says that it is of type 'model'"),
        ({"adapter__type": "control_vector"}, "is an adapter of type 'control_vector', and only LoRA can be used"),
        ({"adapter__type": 1.5}, "is an adapter of type 'unknown', and only LoRA can be used"),
        (
            {"adapter__alora__invocation_tokens": [1, 2]},
            "is an activated LoRA, which works only behind words of its own",
        ),
        ({"general__architecture": None}, "does not say which architecture it is for"),
        ({"adaptrag__report": "{"}, "holds a report of its training that cannot be read: "),
        ({"adaptrag__report": "[1]"}, "holds a report of its training that cannot be read: "),
        ({"adaptrag__report": '{"a":' * 100_000}, "holds a report of its training that cannot be read: "),
    ],
)
def test_what_is_no_lora_is_refused(tmp_path: Path, keys: dict[str, object], reason: str) -> None:
    path = put(tmp_path, "x", **keys)
    with pytest.raises(ModelError) as caught:
        read_adapter(path)
    assert caught.value.message.startswith(f"{path} {reason}")
    assert "\n" not in caught.value.message


# Names and folders


def test_adapters_are_listed_the_newest_first_and_broken_files_told(tmp_path: Path) -> None:
    assert list_adapters(tmp_path).files == ()
    for age, name in enumerate(("new", "old")):
        os.utime(put(tmp_path, name), (1_000_000 - age, 1_000_000 - age))
    (adapters_dir(tmp_path) / "broken.gguf").write_bytes(b"GGUF")
    (adapters_dir(tmp_path) / "pipe.gguf").mkdir()
    (adapters_dir(tmp_path) / ".half.gguf.new").write_bytes(b"GGUF")
    found = list_adapters(tmp_path)
    assert [file.name for file in found.files] == ["new", "old"]
    assert [problem.split(" ")[0] for problem in found.problems] == [
        str(adapters_dir(tmp_path) / f"{name}.gguf") for name in ("broken", "pipe")
    ]


def test_a_misspelt_name_is_told_the_nearest(tmp_path: Path) -> None:
    put(tmp_path, "saltmarsh")
    assert find_adapter(tmp_path, "saltmarsh").name == "saltmarsh"
    with pytest.raises(UnknownName, match="unknown adapter 'saltmarch'; did you mean 'saltmarsh'"):
        find_adapter(tmp_path, "saltmarch")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a\\b", ".hidden", "-x", "a\nb", "a\0b", "none", "x.gguf"])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name of an adapter"):
        adapter_path(tmp_path, name)


# Which model an adapter goes with


def test_model_and_adapter_are_a_model_of_its_own(models: Path, base: str) -> None:
    path = tell(models, "mine", base)
    file = locate_adapted(MODEL, "mine", models)
    assert (file.name, file.path) == (f"{MODEL} + mine", locate_model(MODEL, models).path)
    assert file.fingerprint == f"{base}+sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    assert file.adapter is not None and file.adapter.path == path
    assert locate_adapted(MODEL, None, models) == locate_model(MODEL, models)
    assert fitting_models(file.adapter, models) == (MODEL,)


@pytest.mark.parametrize(
    ("adapter", "strategy", "typed", "examples", "origin"),
    [
        ("mine", "deeprag", None, 0, "adapter mine was trained without"),
        ("mine", "deeprag", 3, 3, "--examples"),
        ("mine", "iterdrag", None, 6, "default of iterdrag"),
        ("tool", "deeprag", None, 6, "default of deeprag"),
        (None, "deeprag", None, 6, "default of deeprag"),
    ],
)
def test_what_was_trained_without_examples_is_asked_without(
    models: Path, base: str, adapter: str | None, strategy: str, typed: int | None, examples: int, origin: str
) -> None:
    tell(models, "mine", base)
    put(models, "tool", **OF_ANOTHER_TOOL)
    flags = {"models.answer": MODEL, "models.dir": models, "models.adapter": adapter, "ask.strategy": strategy}
    plan = plan_session(load_settings(flags={**flags, "ask.examples": typed}))
    (row,) = [row for row in plan.rows if row.name == "examples"]
    assert (plan.options.examples, row.value, row.origin) == (examples, examples, origin)


def test_an_adapter_of_another_file_is_refused_and_both_are_named(models: Path, base: str) -> None:
    put(models, "other", adaptrag__base__name="other-model", adaptrag__base__fingerprint="sha256:" + "ab" * 32)
    with pytest.raises(ModelError) as caught:
        locate_adapted(MODEL, "other", models)
    assert caught.value.message == (
        f"adapter 'other' was trained on other-model (sha256:abababababab...), and {MODEL} ({base[:19]}...) is another "
        "file"
    )
    assert fitting_models(find_adapter(models, "other"), models) == ()
    put(models, "llama", general__architecture="llama", adaptrag__base__name="smollm")
    with pytest.raises(ModelError, match=f"adapter 'llama' is for smollm, and {MODEL} is a qwen2 model"):
        locate_adapted(MODEL, "llama", models)


def test_a_model_that_was_verified_since_is_still_the_same(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before `models verify` a file's fingerprint is another one than after it."""
    file = models / find_entry(MODEL).file
    partial = locate_model(MODEL, models).fingerprint
    assert partial.startswith("partial:")
    tell(models, "early", partial)
    monkeypatch.setattr("adaptrag_cli.models.files.unchanged_hash", lambda *_: "cd" * 32)
    monkeypatch.setattr("adaptrag_cli.models.files.read_stamp", lambda *_: type("S", (), {"published": True}))
    assert locate_model(MODEL, models).fingerprint == "sha256:" + "cd" * 32
    assert locate_adapted(MODEL, "early", models).fingerprint.startswith("sha256:" + "cd" * 32 + "+")
    tell(models, "other", "partial:" + "0" * 64)
    with pytest.raises(ModelError, match="is another file"):
        locate_adapted(MODEL, "other", models)
    assert file.is_file()


def test_a_model_that_is_not_verified_yet_is_to_be_verified(models: Path) -> None:
    tell(models, "published", "sha256:" + "ab" * 32)
    with pytest.raises(ModelError, match="this file of it was not verified yet") as caught:
        locate_adapted(MODEL, "published", models)
    assert caught.value.hint == f"adaptrag models verify {MODEL}"


def test_an_adapter_of_another_tool_goes_with_its_architecture(models: Path) -> None:
    put(models, "foreign", **OF_ANOTHER_TOOL)
    file = locate_adapted(MODEL, "foreign", models)
    assert file.adapter is not None
    assert (file.adapter.tells_base, file.adapter.base, file.adapter.report) == (False, "a qwen2 model", {})
    put(models, "foreign-llama", general__architecture="llama", **OF_ANOTHER_TOOL)
    with pytest.raises(ModelError, match=f"adapter 'foreign-llama' is for a llama model, and {MODEL} is a qwen2 model"):
        locate_adapted(MODEL, "foreign-llama", models)


# In a session

Open = Callable[..., Session]


@pytest.fixture
def loads() -> list[dict[str, object]]:
    """How the model was loaded, each time."""
    return []


@pytest.fixture
def opened(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch, loads: list[dict[str, object]]) -> Open:
    encoder = PlaneEncoder(tmp_path / "encoder", ANGLES)
    plane_index(tmp_path, DOCUMENTS, encoder)

    def load(*_: object, **how: object) -> tuple[ScriptedModel]:
        loads.append(how)
        return (unsure_model(),)

    monkeypatch.setattr("adaptrag_cli.models.llama.load_llama_lanes", load)
    monkeypatch.setattr("adaptrag_cli.models.encoder.load_encoder", lambda *_, **__: encoder)

    def open_with(*, keep: Session | None = None, **flags: object) -> Session:
        given = {"models.answer": MODEL, "models.dir": models, "index.dir": tmp_path / "indexes"}
        flags = {name.replace("__", "."): value for name, value in flags.items()}
        return open_session(load_settings(flags=given | flags), keep=keep)

    return open_with


def test_the_adapter_is_loaded_under_the_name_of_both(opened: Open, models: Path, base: str, loads) -> None:
    path = tell(models, "mine", base)
    session = opened(models__adapter="mine")
    assert (loads[0]["name"], loads[0]["adapter"]) == (f"{MODEL} + mine", path)
    assert str(loads[0]["fingerprint"]).startswith(f"{base}+sha256:")
    row = next(row for row in session.settings if row.name == "adapter")
    assert (row.value, row.origin) == ("mine", "--adapter")
    assert "adapter" not in {row.name for row in opened(models__adapter="none").settings}
    assert loads[1]["adapter"] is None


def test_a_threshold_of_the_model_is_not_taken_for_the_adapted_one(opened: Open, models: Path, base: str) -> None:
    tell(models, "mine", base)
    write_calibration(
        calibration_path(models, MODEL),
        Calibrated(
            model=MODEL,
            model_fingerprint=base,
            encoder="plane",
            source="x",
            labelled=True,
            questions=0,
            question_digests=(),
            created="",
            adaptrag_version="",
            alpha_line=(1.0, 0.0),
        ),
    )
    plain, adapted = opened(), opened(models__adapter="mine")
    assert plain.options.threshold == find_entry(MODEL).calibration.threshold
    assert plain.resources.calibrated is not None
    assert plain.resources.draft_odds
    assert adapted.options.threshold == 0.001
    assert adapted.resources.calibrated is None
    assert adapted.resources.draft_odds == ()
    assert adapted.resources.evidence_rule is None
    (warning,) = adapted.warnings
    assert warning.message.startswith(f"no threshold was measured for {MODEL} + mine")


def test_an_adapter_has_a_calibration_of_its_own_until_it_is_trained_anew(
    opened: Open, models: Path, base: str
) -> None:
    path = tell(models, "mine", base)
    settings = load_settings(flags={"models.answer": MODEL, "models.dir": models, "models.adapter": "mine"})
    file = model_load_of(settings).file
    calibrated = Calibrated(
        model=file.name,
        model_fingerprint=file.fingerprint,
        encoder="plane",
        source="x",
        labelled=True,
        questions=0,
        question_digests=(),
        created="",
        adaptrag_version="",
    )
    write_calibration(calibration_path(models, file.name), calibrated)
    assert plan_session(settings).calibrated == calibrated
    tell(models, "mine", base, adaptrag__stage="calibration")
    plan = plan_session(settings)
    assert plan.calibrated is None
    again = hashlib.sha256(path.read_bytes()).hexdigest()
    assert f"this file is {base[:19]}...+sha256:{again[:12]}...: calibrate again" in plan.warnings[0].message


def test_what_another_tool_made_is_told_at_every_run(opened: Open, models: Path) -> None:
    put(models, "foreign", **OF_ANOTHER_TOOL)
    session = opened(models__adapter="foreign", ask__threshold=0.3)
    assert [w.code for w in session.warnings] == ["adapter_base_unknown"]
    assert "adapter 'foreign' does not say which model it was trained on" in session.warnings[0].message


def test_another_adapter_is_another_model(opened: Open, models: Path, base: str, loads) -> None:
    tell(models, "one", base)
    tell(models, "two", base)
    first = opened(models__adapter="one")
    again = opened(models__adapter="one", keep=first)
    assert (len(loads), again.model is first.model) == (1, True)
    opened(models__adapter="two", keep=again)
    opened(models__adapter="none")
    assert [load["name"] for load in loads] == [f"{MODEL} + one", f"{MODEL} + two", MODEL]
    assert len({load["fingerprint"] for load in loads}) == 3


@pytest.mark.parametrize(
    ("name", "error"), [("nowhere", UnknownName), ("../mine", ConfigError), ("llama", ModelError), ("cut", ModelError)]
)
def test_nothing_is_loaded_for_an_adapter_that_cannot_be_used(
    opened: Open, models: Path, loads, name: str, error: type[AdaptRAGError]
) -> None:
    put(models, "llama", general__architecture="llama")
    (adapters_dir(models) / "cut.gguf").write_bytes(b"GGUF")
    with pytest.raises(error):
        opened(models__adapter=name)
    assert loads == []


def test_the_setting_comes_from_file_variable_and_flag(tmp_path: Path) -> None:
    (tmp_path / "adaptrag.toml").write_text('[models]\nadapter = "filed"\n', encoding="utf-8")
    assert load_settings(environ={}).models.adapter == "filed"
    assert load_settings(environ={"ADAPTRAG_MODELS_ADAPTER": "set"}).models.adapter == "set"
    typed = load_settings(environ={}, flags={"models.adapter": "none"})
    assert (typed.models.adapter, typed.origin("models.adapter")) == (None, "--adapter")


def test_a_missing_model_is_told_before_its_adapter(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        locate_adapted(MODEL, "nowhere", tmp_path)


def test_a_grid_compares_a_model_without_and_with_adapters() -> None:
    cells = parse_grid(["adapter=none,one,two"])
    assert [cell.name for cell in cells] == ["adapter=none", "adapter=one", "adapter=two"]
    settings = load_settings(environ={"ADAPTRAG_MODELS_ADAPTER": "set"})
    assert [cell.settings(settings).models.adapter for cell in cells] == [None, "one", "two"]


def test_what_is_typed_for_a_name() -> None:
    assert flags_of(name_with("m.gguf", "mine")) == "--model m.gguf --adapter mine"
    assert flags_of("m") == "--model m"
    assert flags_of("a + b.gguf") == "--model a + b.gguf"
