"""Settings from every source: nearest wins, and what is wrong is told with its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli import locations
from adaptrag_cli.config import (
    UNSET_MEANS,
    Settings,
    allowed_for,
    flag_of,
    load_settings,
    setting_names,
    variable_of,
)
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.models.catalogue import DEFAULT_ANSWER_MODEL, DEFAULT_ENCODER


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def load(cwd: Path, **sources: object) -> Settings:
    return load_settings(cwd=cwd, **({"environ": {}} | sources))  # type: ignore[arg-type]


def failure(cwd: Path, **sources: object) -> ConfigError:
    with pytest.raises(ConfigError) as info:
        load(cwd, **sources)
    return info.value


def test_defaults_when_nothing_is_written(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings == Settings()
    assert {row.origin for row in settings.as_rows()} == {"default"}
    assert tuple(row.name for row in settings.as_rows()) == setting_names()


def test_the_nearest_source_wins_setting_by_setting(tmp_path: Path) -> None:
    user = write(locations.user_config_file(), "[ask]\nthreshold = 0.1\ntop_n = 1\ntop_k = 1\nais = 'sum'\n")
    near = write(tmp_path / "adaptrag.toml", "[ask]\nthreshold = 0.2\ntop_n = 2\ntop_k = 2\n")
    environ = {"ADAPTRAG_ASK_THRESHOLD": "0.3", "ADAPTRAG_ASK_TOP_N": "3"}
    settings = load(tmp_path, environ=environ, flags={"ask.threshold": 0.4, "ask.top_k": None})
    ask = settings.ask
    assert (ask.threshold, ask.top_n, ask.top_k, ask.ais, ask.style) == (0.4, 3, 2, "sum", "short")
    assert [settings.origin(f"ask.{key}") for key in ("threshold", "top_n", "top_k", "ais", "style")] == [
        "--threshold",
        "ADAPTRAG_ASK_TOP_N",
        str(near),
        str(user),
        "default",
    ]
    assert settings.files == (near, user)


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_a_named_file_stands_alone(tmp_path: Path, by: str) -> None:
    write(locations.user_config_file(), "[ask]\ntop_n = 1\n")
    write(tmp_path / "adaptrag.toml", "[ask]\ntop_k = 2\n")
    named = write(tmp_path / "sub" / "mine.toml", "[ask]\nthreshold = 0.5\n")
    sources = {"config_file": Path("sub/mine.toml")} if by == "flag" else {"environ": {"ADAPTRAG_CONFIG": str(named)}}
    settings = load(tmp_path, **sources)
    assert (settings.ask.threshold, settings.ask.top_n, settings.ask.top_k) == (0.5, None, None)
    assert settings.files == (named,)


def test_the_flag_that_names_a_file_beats_the_variable(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1.toml", "[ask]\ntop_k = 1\n"), write(tmp_path / "2.toml", "[ask]\ntop_k = 2\n")
    assert load(tmp_path, config_file=one, environ={"ADAPTRAG_CONFIG": str(two)}).ask.top_k == 1


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert str(failure(tmp_path, config_file=Path("gone.toml"))) == f"--config: no file {tmp_path / 'gone.toml'}"
    wanted = f"ADAPTRAG_CONFIG: no file {tmp_path / 'gone.toml'}"
    assert str(failure(tmp_path, environ={"ADAPTRAG_CONFIG": "gone.toml"})) == wanted


def test_paths_in_a_file_are_relative_to_the_file_and_others_to_the_working_folder(
    tmp_path: Path, private_home: Path
) -> None:
    file = write(
        tmp_path / "conf" / "a.toml",
        "[models]\ndir = '../weights'\nanswer = 'm.gguf'\nencoder = '~/minilm'\n[index]\ndir = '/srv/indexes'\n",
    )
    settings = load(tmp_path, config_file=file)
    assert settings.models.dir == tmp_path / "weights"
    assert settings.models.answer == str(tmp_path / "conf" / "m.gguf")
    assert settings.models.encoder == str(private_home / "minilm")
    assert settings.index.dir == Path("/srv/indexes")
    assert load(tmp_path, environ={"ADAPTRAG_MODELS_DIR": "weights"}).models.dir == tmp_path / "weights"
    assert load(tmp_path, flags={"index.dir": Path("here")}).index.dir == tmp_path / "here"


def test_a_catalogue_name_is_never_taken_for_a_folder_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "all-minilm-l6-v2").mkdir()
    (tmp_path / "BAAI" / "bge").mkdir(parents=True)
    file = write(tmp_path / "adaptrag.toml", "[models]\nencoder = 'all-minilm-l6-v2'\n")
    assert load(tmp_path, config_file=file).models.encoder == "all-minilm-l6-v2"
    assert load(tmp_path, flags={"models.encoder": "BAAI/bge"}).models.encoder == str(tmp_path / "BAAI" / "bge")
    assert load(tmp_path, flags={"models.encoder": "BAAI/other"}).models.encoder == "BAAI/other"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[ask]\ntreshold = 1\n", "unknown setting 'ask.treshold'; did you mean 'ask.threshold'?"),
        ("[asks]\ntop_k = 1\n", "unknown section [asks]; did you mean 'ask'?"),
        ("threshold = 1\n", "unknown setting 'threshold'; did you mean 'ask.threshold'?"),
        ("ask = 1\n", "ask must be a section"),
        ("[ask]\nthreshold = 'high'\n", "ask.threshold must be a number from 0, not 'high'"),
        ("[ask]\nthreshold = -0.1\n", "ask.threshold must be a number from 0, not -0.1"),
        ("[ask]\nthreshold = nan\n", "ask.threshold must be a number from 0, not nan"),
        ("[ask]\nthreshold = inf\n", "ask.threshold must be a number from 0, not inf"),
        ("[ask]\ntop_k = true\n", "ask.top_k must be a whole number from 1 to 10000, not True"),
        ("[ask]\ntop_k = 0\n", "ask.top_k must be a whole number from 1 to 10000, not 0"),
        ("[ask]\npeek = 'yes'\n", "ask.peek must be true or false, not 'yes'"),
        ("[ask]\nais = 'cosine'\n", "ask.ais must be cos, sum, dynamic or rerank, not 'cosine'"),
        ("[ask]\nretriever = ['dense']\n", "ask.retriever must be dense, sparse or hybrid, not 'list'"),
        ('[ask]\nstyle = "short\\n"\n', "ask.style must be short or cited, not 'short\\n'"),
        ("[models]\ngpu_layers = -1\n", "models.gpu_layers must be auto, all or a whole number from 0, not '-1'"),
        ("[models]\ndir = 1\n", "models.dir must be a path, not 1"),
        ("[models]\nanswer = ''\n", "models.answer must be a name or a path, not ''"),
        ("[ask\n", "not valid TOML: Expected ']' at the end of a table declaration (at line 1, column 5)"),
        ("a = 1\nb = [\n", "not valid TOML: Invalid value (at end of document)"),
        ("x = " + "[" * 5000, "nested too deeply"),
        ("x = " + "9" * 5000, "not valid TOML: Exceeds the limit (4300 digits) for integer string conversion"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path / "adaptrag.toml", text)
    assert str(failure(tmp_path)).startswith(f"{file}: {message}")


def test_a_file_that_is_not_text_or_not_a_file(tmp_path: Path) -> None:
    file = tmp_path / "adaptrag.toml"
    file.write_bytes(b"# ok\n# caf\xe9\n")
    assert str(failure(tmp_path)) == f"{file}: not UTF-8 (at line 2)"
    file.write_bytes(b"#" * (1 << 20) + b"\n")
    assert str(failure(tmp_path)) == f"{file} is larger than 1048576 bytes"
    file.unlink()
    os.mkfifo(file)  # opening it would wait for a writer for ever
    assert str(failure(tmp_path)) == f"{file} is not a regular file"
    file.unlink()
    file.mkdir()
    assert str(failure(tmp_path)) == f"{file} is not a regular file"


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("YES", True), ("1", True), ("on", True), ("false", False), ("No", False), ("0", False)],
)
def test_a_switch_in_the_environment(tmp_path: Path, text: str, value: bool) -> None:
    assert load(tmp_path, environ={"ADAPTRAG_ASK_PEEK": text}).ask.peek is value


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("ADAPTRAG_ASK_PEEK", "maybe", "ADAPTRAG_ASK_PEEK: ask.peek must be true or false, not 'maybe'"),
        ("ADAPTRAG_ASK_THRESHOLD", "nan", "ADAPTRAG_ASK_THRESHOLD: ask.threshold must be a number from 0, not 'nan'"),
        ("ADAPTRAG_ASK_TOP_K", "null", "ADAPTRAG_ASK_TOP_K: ask.top_k must be a whole number from 1 to 10000"),
        (
            "ADAPTRAG_ASK_TRESHOLD",
            "1",
            "unknown environment variable ADAPTRAG_ASK_TRESHOLD; did you mean 'ADAPTRAG_ASK_THRESHOLD'?",
        ),
        (
            "ADAPTRAG_STRATEGY",
            "dtr",
            "unknown environment variable ADAPTRAG_STRATEGY; did you mean 'ADAPTRAG_ASK_STRATEGY'?",
        ),
    ],
)
def test_what_is_wrong_in_the_environment(tmp_path: Path, variable: str, text: str, message: str) -> None:
    assert str(failure(tmp_path, environ={variable: text})).startswith(message)


def test_an_empty_variable_is_unset_and_foreign_ones_are_left_alone(tmp_path: Path) -> None:
    environ = {"ADAPTRAG_ASK_THRESHOLD": "", "ADAPTRAG_DATA_DIR": "/x", "ADAPTRAG_TEST_MODELS": "/m", "OTHER_ASK": "9"}
    assert load(tmp_path, environ=environ) == Settings()


def test_what_is_wrong_in_a_flag_names_the_flag(tmp_path: Path) -> None:
    assert str(failure(tmp_path, flags={"ask.top_k": 0})) == (
        "--top-k: ask.top_k must be a whole number from 1 to 10000, not 0"
    )
    assert str(failure(tmp_path, flags={"ask.examples": 9})) == (
        "--examples: ask.examples must be a whole number from 0 to 8 (fewer with some strategies), not 9"
    )


def test_a_switch_turned_off_names_the_flag_that_was_typed(tmp_path: Path) -> None:
    assert load(tmp_path, flags={"ask.peek": False}).origin("ask.peek") == "--no-peek"


def test_a_setting_without_a_flag_is_named_itself(tmp_path: Path) -> None:
    assert load(tmp_path, flags={"models.threads": 2}).origin("models.threads") == "models.threads"
    assert str(failure(tmp_path, flags={"models.threads": 0})).startswith("models.threads: models.threads must be")


def test_gpu_layers_may_be_written_as_a_number(tmp_path: Path) -> None:
    write(tmp_path / "adaptrag.toml", "[models]\ngpu_layers = 20\n")
    assert load(tmp_path).models.gpu_layers == "20"


def test_overlap_must_leave_room_in_the_chunk(tmp_path: Path) -> None:
    write(tmp_path / "adaptrag.toml", "[index]\nchunk_tokens = 32\n")
    assert str(failure(tmp_path)) == "index.chunk_overlap (32, default) must be smaller than index.chunk_tokens (32)"


def test_every_setting_has_a_variable_words_for_its_values_and_nearly_every_one_a_flag() -> None:
    names = setting_names()
    assert len({variable_of(name) for name in names}) == len({flag_of(name) for name in names}) == len(names)
    assert [name for name in names if flag_of(name) is None] == ["models.threads"]
    assert all(allowed_for(name) for name in names)
    assert variable_of("index.dir") == "ADAPTRAG_INDEX_DIR"
    assert variable_of("models.dir") == "ADAPTRAG_MODELS_DIR"
    assert {row.name for row in Settings().as_rows() if row.value is None} == set(UNSET_MEANS)


@given(threshold=st.floats(0, 100), top_k=st.integers(1, 10_000), peek=st.booleans())
def test_a_value_reads_the_same_from_file_environment_and_flag(
    tmp_path_factory: pytest.TempPathFactory, threshold: float, top_k: int, peek: bool
) -> None:
    cwd = tmp_path_factory.mktemp("cwd")
    flag = load(cwd, flags={"ask.threshold": threshold, "ask.top_k": top_k, "ask.peek": peek})
    texts = {"THRESHOLD": repr(threshold), "TOP_K": str(top_k), "PEEK": str(peek)}
    variable = load(cwd, environ={f"ADAPTRAG_ASK_{key}": text for key, text in texts.items()})
    write(cwd / "adaptrag.toml", "[ask]\n" + "".join(f"{key} = {text}\n" for key, text in texts.items()).lower())
    assert flag.ask == variable.ask == load(cwd).ask


@given(st.dictionaries(st.sampled_from(setting_names()), st.text(max_size=30)))
def test_any_text_in_the_environment_is_taken_or_refused_in_one_error(
    tmp_path_factory: pytest.TempPathFactory, texts: dict[str, str]
) -> None:
    environ = {variable_of(name): text for name, text in texts.items()}
    message, origins = "", None
    try:
        origins = set(load(tmp_path_factory.getbasetemp(), environ=environ).origins)
    except ConfigError as error:
        message = error.message
    if origins is None:
        assert any(variable in message for variable in environ) or "chunk_overlap" in message
    else:
        assert origins == {name for name, text in texts.items() if text}


def test_the_default_models_are_the_catalogues() -> None:
    assert Settings().models.answer == DEFAULT_ANSWER_MODEL
    assert Settings().models.encoder == DEFAULT_ENCODER
