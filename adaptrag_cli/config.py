"""Settings, and where each value came from.

Nearest wins, setting by setting: a flag that was typed, then an environment variable, then `./adaptrag.toml`, then the
user's `adaptrag.toml`, then the default. A file named by `--config` or `ADAPTRAG_CONFIG` stands alone: it replaces both
files. The variable of a setting is its dotted name in capitals: `ask.threshold` is `ADAPTRAG_ASK_THRESHOLD`,
`models.dir` is `ADAPTRAG_MODELS_DIR`, `index.dir` is `ADAPTRAG_INDEX_DIR`.

A file in the working folder may come from a stranger, so a value is only ever a number, a yes or no, a name that a
fixed table must hold, or a path to data: nothing in it names code, a command or an address.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta

from adaptrag_cli import locations
from adaptrag_cli.errors import ConfigError

FILE_NAME = "adaptrag.toml"
MAX_FILE_BYTES = 1 << 20

RetrieverName = Literal["dense", "sparse", "hybrid"]
RETRIEVERS: tuple[RetrieverName, ...] = get_args(RetrieverName)
AisScore = Literal["cos", "sum", "dynamic", "rerank"]
AIS_SCORES: tuple[AisScore, ...] = get_args(AisScore)
Selection = Literal["ais", "1q+2p", "2q+1p"]
SELECTIONS: tuple[Selection, ...] = get_args(Selection)
SearchPaths = Literal["both", "query", "pseudo_context"]
SEARCH_PATHS: tuple[SearchPaths, ...] = get_args(SearchPaths)
AgreementRule = Literal["exact", "containment", "f1", "cosine"]
AGREEMENT_RULES: tuple[AgreementRule, ...] = get_args(AgreementRule)
Mode = Literal["paper", "code"]
MODES: tuple[Mode, ...] = get_args(Mode)
Smoothing = Literal["code", "literal", "normalised", "fixed", "none"]
SMOOTHINGS: tuple[Smoothing, ...] = get_args(Smoothing)
Difference = Literal["second", "first"]
DIFFERENCES: tuple[Difference, ...] = get_args(Difference)
ContextPolicy = Literal["discard", "replace", "accumulate"]
CONTEXT_POLICIES: tuple[ContextPolicy, ...] = get_args(ContextPolicy)
QueryForm = Literal["masked", "written", "sentence"]
QUERY_FORMS: tuple[QueryForm, ...] = get_args(QueryForm)
Decision = Literal["logits", "probabilities"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)
ProbeQuery = Literal["text", "literal", "question"]
PROBE_QUERIES: tuple[ProbeQuery, ...] = get_args(ProbeQuery)
Reader = Literal["none", "direct", "reasoned"]
READERS: tuple[Reader, ...] = get_args(Reader)
Sources = Literal["both", "memory", "documents"]
SOURCES: tuple[Sources, ...] = get_args(Sources)
Style = Literal["short", "cited"]
STYLES: tuple[Style, ...] = get_args(Style)


def _one_of(names: tuple[str, ...]) -> Meta:
    return Meta(description=f"{', '.join(names[:-1])} or {names[-1]}")


Name = Annotated[str, Meta(min_length=1, description="a name or a path")]
IndexName = Annotated[str, Meta(min_length=1, description="a name")]
Folder = Annotated[Path, Meta(description="a path")]
Switch = Annotated[bool, Meta(description="true or false")]
Examples = Annotated[int, Meta(ge=0, le=8, description="a whole number from 0 to 8 (fewer with some strategies)")]
AtLeastOne = Annotated[int, Meta(ge=1, le=10_000, description="a whole number from 1 to 10000")]
GpuLayers = Annotated[str, Meta(pattern=r"^(auto|all|[0-9]{1,4})\Z", description="auto, all or a whole number from 0")]
ContextLength = Annotated[int, Meta(ge=256, le=1 << 20, description="a whole number of tokens from 256 to 1048576")]
ChunkTokens = Annotated[int, Meta(ge=16, le=8192, description="a whole number of tokens from 16 to 8192")]
ChunkOverlap = Annotated[int, Meta(ge=0, le=4096, description="a whole number of tokens from 0 to 4096")]
Threshold = Annotated[float, Meta(ge=0, description="a number from 0")]
RetrieverSetting = Annotated[RetrieverName, _one_of(RETRIEVERS)]
AisSetting = Annotated[AisScore, _one_of(AIS_SCORES)]
StyleSetting = Annotated[Style, _one_of(STYLES)]
SelectionSetting = Annotated[Selection, _one_of(SELECTIONS)]
PathsSetting = Annotated[SearchPaths, _one_of(SEARCH_PATHS)]
AgreementSetting = Annotated[AgreementRule, _one_of(AGREEMENT_RULES)]
ModeSetting = Annotated[Mode, _one_of(MODES)]
SmoothingSetting = Annotated[Smoothing, _one_of(SMOOTHINGS)]
DifferenceSetting = Annotated[Difference, _one_of(DIFFERENCES)]
ContextPolicySetting = Annotated[ContextPolicy, _one_of(CONTEXT_POLICIES)]
QueryFormSetting = Annotated[QueryForm, _one_of(QUERY_FORMS)]
DecisionSetting = Annotated[Decision, _one_of(DECISIONS)]
ProbeQuerySetting = Annotated[ProbeQuery, _one_of(PROBE_QUERIES)]
Theta = Annotated[float, Meta(description="a number")]
ReaderSetting = Annotated[Reader, _one_of(READERS)]
SourcesSetting = Annotated[Sources, _one_of(SOURCES)]
Share = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
Day = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\Z", description="a date such as 2026-01-31")]


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Which models run, and how."""

    answer: Name = "qwen2.5-coder-1.5b-instruct"
    """Catalogue name or path of a GGUF file."""
    adapter: IndexName | None = None
    """LoRA adapter that is put on the answer model."""
    encoder: Name = "all-minilm-l6-v2"
    """Catalogue name, sentence-transformers folder or hub name."""
    judge: Name | None = None
    """Answer model that judges in its place; None means the answer model itself."""
    reranker: Name | None = None
    """Cross-encoder; None means that the answer model is asked about relevance."""
    dir: Folder | None = None
    """Folder of the model files; None means the user data folder."""
    gpu_layers: GpuLayers = "auto"
    """`auto`, `all` or a number."""
    context_length: ContextLength = 4096
    threads: AtLeastOne | None = None
    """None means one per physical core."""


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """Where indexes live and how documents are cut."""

    dir: Folder | None = None
    name: IndexName | None = None
    chunk_tokens: ChunkTokens | None = None
    """None means as much as the encoder's window holds."""
    chunk_overlap: ChunkOverlap = 32
    body_only: Switch = False


@dataclass(frozen=True, kw_only=True)
class AskSettings:
    """How a question is answered. None means the strategy's own default (its paper's)."""

    strategy: Name = "dtr"
    threshold: Threshold | None = None
    retriever: RetrieverSetting | None = None
    ais: AisSetting | None = None
    top_n: AtLeastOne | None = None
    top_k: AtLeastOne | None = None
    style: StyleSetting = "short"
    gate: Switch | None = None
    selection: SelectionSetting | None = None
    paths: PathsSetting | None = None
    agreement: AgreementSetting | None = None
    agreement_limit: Share | None = None
    exclude_numbers: Switch | None = None
    neighbours: AtLeastOne | None = None
    labels: Folder | None = None
    """Folder of an `adaptrag eval` run whose outcomes label questions (skr-knn, adaptive-rag, popularity)."""
    floor: Share | None = None
    trigger: Threshold | None = None
    mode: ModeSetting | None = None
    smoothing: SmoothingSetting | None = None
    difference: DifferenceSetting | None = None
    context_policy: ContextPolicySetting | None = None
    query_form: QueryFormSetting | None = None
    prober: IndexName | None = None
    """None means the newest one of the answer model."""
    theta: Theta | None = None
    decision: DecisionSetting | None = None
    probe_query: ProbeQuerySetting | None = None
    reader: ReaderSetting | None = None
    sources: SourcesSetting | None = None
    stride: AtLeastOne | None = None
    examples: Examples | None = None
    max_retrievals: AtLeastOne | None = None
    max_steps: AtLeastOne | None = None
    today: Day | None = None
    peek: Switch = True


SECTIONS: Mapping[str, type] = {"models": ModelSettings, "index": IndexSettings, "ask": AskSettings}

UNSET_MEANS: Mapping[str, str] = {
    "models.adapter": "none: the answer model as it is",
    "models.judge": "the answer model",
    "models.reranker": "the answer model, asked about relevance",
    "models.dir": "the user data folder",
    "models.threads": "one per physical core",
    "index.dir": "./indexes if it carries our marker file, else the user data folder",
    "index.name": "the only index there is",
    "index.chunk_tokens": "what the encoder's window holds",
    "ask.threshold": "the one measured for the model, from the catalogue",
    "ask.retriever": "the strategy's own",
    "ask.ais": "the strategy's own",
    "ask.top_n": "the strategy's own",
    "ask.top_k": "the strategy's own",
    "ask.gate": "the strategy's own",
    "ask.selection": "the strategy's own",
    "ask.paths": "the strategy's own",
    "ask.agreement": "the strategy's own",
    "ask.agreement_limit": "the strategy's own",
    "ask.exclude_numbers": "the strategy's own",
    "ask.neighbours": "the strategy's own",
    "ask.labels": "none: skr-knn, adaptive-rag and popularity then refuse",
    "ask.floor": "the strategy's own",
    "ask.trigger": "the strategy's own",
    "ask.mode": "the strategy's own",
    "ask.smoothing": "the strategy's own",
    "ask.difference": "the strategy's own",
    "ask.context_policy": "the strategy's own",
    "ask.query_form": "the strategy's own",
    "ask.prober": "the newest one of the answer model",
    "ask.theta": "the strategy's own",
    "ask.decision": "the strategy's own",
    "ask.probe_query": "the strategy's own",
    "ask.reader": "the strategy's own",
    "ask.sources": "the strategy's own",
    "ask.stride": "the strategy's own",
    "ask.examples": "the strategy's own",
    "ask.max_retrievals": "the strategy's own",
    "ask.max_steps": "the strategy's own",
    "ask.today": "the date of the day",
}
"""What None stands for, by dotted name."""

NO_ADAPTER = "none"
"""What is written where an adapter is set further off and none is wanted, as in `eval --vary adapter=none,mine`."""
_MODEL_NAMES = frozenset({"models.answer", "models.judge", "models.reranker", "models.encoder"})
_OTHER_VARIABLES = ("ADAPTRAG_CONFIG", "ADAPTRAG_DATA_DIR", "ADAPTRAG_TEST_")
_FLAGS: Mapping[str, str | None] = {
    "models.answer": "--model",
    "models.judge": "--judge-model",
    "models.dir": "--models-dir",
    "models.threads": None,
    "index.dir": "--index-dir",
    "index.name": "--index",
    "index.chunk_overlap": "--overlap",
}


@dataclass(frozen=True, kw_only=True)
class SettingRow:
    """One setting as `adaptrag config` shows it."""

    name: str
    value: str | int | float | bool | None
    origin: str


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All sections, and the origin of each value by its dotted name (`ask.threshold`)."""

    models: ModelSettings = field(default_factory=ModelSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    ask: AskSettings = field(default_factory=AskSettings)
    origins: Mapping[str, str] = field(default_factory=dict)
    """`default`, `/path/adaptrag.toml`, `ADAPTRAG_ASK_THRESHOLD` or `--threshold`."""
    files: tuple[Path, ...] = ()
    """Configuration files that were read, nearest first."""

    def value(self, name: str) -> object:
        """The value of a dotted name."""
        section, key = name.split(".")
        return getattr(getattr(self, section), key)

    def origin(self, name: str) -> str:
        """Where the value of a dotted name came from."""
        return self.origins.get(name, "default")

    def as_rows(self) -> tuple[SettingRow, ...]:
        """Every setting with its value and origin, in the order of the sections."""
        return tuple(
            SettingRow(name=name, value=_scalar(self.value(name)), origin=self.origin(name)) for name in setting_names()
        )


@cache
def setting_names() -> tuple[str, ...]:
    """All dotted names, in the order of the sections."""
    return tuple(f"{section}.{spec.name}" for section, kind in SECTIONS.items() for spec in fields(kind))


def variable_of(name: str) -> str:
    """The environment variable of a dotted name."""
    return f"ADAPTRAG_{name.replace('.', '_').upper()}"


def flag_of(name: str) -> str | None:
    """The flag of a dotted name, as it is typed; None where no command has one."""
    return _FLAGS[name] if name in _FLAGS else f"--{name.split('.')[1].replace('_', '-')}"


def allowed_for(name: str) -> str:
    """What a value of this dotted name may be, in words."""
    return str(_meta(name).description)


def load_settings(
    *,
    flags: Mapping[str, object] | None = None,
    config_file: Path | None = None,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read every source and keep, for each setting, the nearest value and its origin.

    Args:
        flags: dotted names to values; None means that the flag was not typed.
        config_file: the file of `--config`, which then is the only one read.

    Raises:
        ConfigError: a file cannot be read, or a name, type or value in any source is wrong.
    """
    cwd = (cwd or Path.cwd()).absolute()
    environ = os.environ if environ is None else environ
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    paths = config_files(config_file=config_file, cwd=cwd, environ=environ)
    sources = [_typed_flags(flags or {}, cwd), _variables(environ, cwd), *(_file_values(path) for path in paths)]
    for source in sources:
        for name, value, origin in source:
            if name not in values:
                values[name], origins[name] = value, origin
    sections: dict[str, Any] = {}
    for section, kind in SECTIONS.items():
        mine = {n.partition(".")[2]: v for n, v in values.items() if n.startswith(f"{section}.")}
        sections[section] = kind(**mine)
    settings = Settings(**sections, origins=origins, files=paths)
    _check_overlap(settings)
    return settings


def with_overrides(settings: Settings, values: Mapping[str, tuple[object, str]]) -> Settings:
    """Lay values (a text is parsed) with their origins over settings, by dotted name.

    Raises:
        ConfigError: a value is wrong.
    """
    sections = {section: getattr(settings, section) for section in SECTIONS}
    for name, (raw, origin) in values.items():
        section, key = name.split(".")
        value = _check(name, raw, where=f"{origin} {key}", base=Path.cwd(), is_text=isinstance(raw, str))
        sections[section] = replace(sections[section], **{key: value})
    origins = {**settings.origins, **{name: origin for name, (_, origin) in values.items()}}
    return replace(settings, **sections, origins=origins)


def _check_overlap(settings: Settings) -> None:
    tokens, overlap = settings.index.chunk_tokens, settings.index.chunk_overlap
    if tokens is not None and overlap >= tokens:
        raise ConfigError(
            f"index.chunk_overlap ({overlap}, {settings.origin('index.chunk_overlap')}) must be smaller than "
            f"index.chunk_tokens ({tokens})",
            "lower the overlap or raise the chunk size",
        )


def config_files(*, config_file: Path | None, cwd: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The configuration files that are read, nearest first.

    Raises:
        ConfigError: the file named by `--config` or `ADAPTRAG_CONFIG` does not exist.
    """
    named = [(config_file, "--config")] if config_file else []
    if environ.get("ADAPTRAG_CONFIG"):
        named.append((Path(environ["ADAPTRAG_CONFIG"]), "ADAPTRAG_CONFIG"))
    for given, origin in named:
        path = _absolute(given, cwd)
        if not path.exists():
            raise ConfigError(f"{origin}: no file {path}", "see what is read with: adaptrag config --allowed")
        return (path,)
    found = (path for path in (cwd / FILE_NAME, locations.user_config_file()) if path.exists())
    return tuple(dict.fromkeys(found))


def _typed_flags(flags: Mapping[str, object], cwd: Path) -> Iterator[tuple[str, object, str]]:
    for name, raw in flags.items():
        if raw is not None:
            flag = flag_of(name) or name
            negated = f"--no-{flag.removeprefix('--')}" if raw is False else flag
            yield name, _check(name, raw, where=flag, base=cwd), negated


def _variables(environ: Mapping[str, str], cwd: Path) -> Iterator[tuple[str, object, str]]:
    known = {variable_of(name): name for name in setting_names()}
    for variable, raw in environ.items():
        if variable in known and raw != "":
            yield known[variable], _check(known[variable], raw, where=variable, base=cwd, is_text=True), variable
        elif variable not in known and variable.startswith("ADAPTRAG_") and not variable.startswith(_OTHER_VARIABLES):
            raise _unknown("environment variable", variable, known)


def _file_values(path: Path) -> Iterator[tuple[str, object, str]]:
    for section, table in _read_toml(path).items():
        if section not in SECTIONS:
            what = f"section [{section}]" if isinstance(table, dict) else f"setting {section!r}"
            raise _unknown_in_file(path, what, section, [*SECTIONS, *setting_names()])
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {section} must be a section", f"write it as [{section}] with lines KEY = VALUE")
        for key, raw in table.items():
            name = f"{section}.{key}"
            if name not in setting_names():
                raise _unknown_in_file(path, f"setting {name!r}", name, setting_names())
            yield name, _check(name, raw, where=str(path), base=path.parent), str(path)


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.is_file():  # a FIFO would block for ever
        raise ConfigError(f"{path} is not a regular file", "settings are read from a TOML file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes", "is it the right file?")
        return tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", "check its permissions") from error
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}: not UTF-8 (at line {line})", "TOML files are UTF-8") from error
    except RecursionError as error:  # tomllib recurses once per nested bracket
        raise ConfigError(f"{path}: nested too deeply", "settings are plain values in three sections") from error
    except ValueError as error:  # TOMLDecodeError, and numbers of thousands of digits
        raise ConfigError(f"{path}: not valid TOML: {error}", "mend the line or move the file away") from error


@cache
def _hints() -> Mapping[str, Any]:
    """The annotated type of each setting, without its `| None`: unset is the absence of a value, never a value."""
    return {
        f"{section}.{key}": next((part for part in get_args(hint) if hasattr(part, "__metadata__")), hint)
        for section, kind in SECTIONS.items()
        for key, hint in get_type_hints(kind, include_extras=True).items()
    }


def _meta(name: str) -> Meta:
    meta = _hints()[name].__metadata__[0]
    assert isinstance(meta, Meta)
    return meta


def _check(name: str, raw: object, *, where: str, base: Path, is_text: bool = False) -> object:
    """Convert a raw value to the type of its setting; text from the environment is parsed.

    Raises:
        ConfigError: naming the place, the setting and what is allowed.
    """
    hint = _hints()[name]
    if hint is Folder:
        if isinstance(raw, str | Path) and str(raw) and "\0" not in str(raw):
            return _absolute(Path(raw), base)
        raise _wrong(name, raw, where)
    if hint is GpuLayers and type(raw) is int:
        raw = str(raw)
    if hint is Switch and is_text:
        raw = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(str(raw).lower(), str(raw).lower())
    try:
        value = msgspec.convert(raw, hint, strict=not is_text)
    except msgspec.ValidationError as error:
        raise _wrong(name, raw, where) from error
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong(name, raw, where)
    if name == "models.adapter" and value == NO_ADAPTER:
        return None
    return _with_absolute_model(value, base) if name in _MODEL_NAMES else value


def _with_absolute_model(value: object, base: Path) -> object:
    """A model written as a path (`./m.gguf`, `~/m.gguf`, `sub/m.gguf`) is relative to the file that names it.

    A hub name such as `org/name` looks like a path too, so it is one only if that file exists.
    """
    text = str(value)
    is_marked = text.startswith(("./", "../", "~", "/")) or text.lower().endswith(".gguf")
    has_folder = "/" in text or os.sep in text  # a plain name stays a catalogue name whatever lies beside the file
    return str(_absolute(Path(text), base)) if is_marked or (has_folder and (base / text).exists()) else value


def _absolute(path: Path, base: Path) -> Path:
    try:
        path = path.expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{path}: no such home folder", "write the whole path") from error
    return Path(os.path.normpath(base / path))


def _wrong(name: str, raw: object, where: str) -> ConfigError:
    shown = repr(raw if isinstance(raw, str | int | float | bool) else type(raw).__name__)
    return ConfigError(
        f"{where}: {name} must be {allowed_for(name)}, not {shown[:80]}", "see: adaptrag config --allowed"
    )


def _unknown_in_file(path: Path, what: str, name: str, known: Iterable[str]) -> ConfigError:
    return ConfigError(f"{path}: unknown {what}{_nearest(name, known)}", "all settings: adaptrag config --allowed")


def _unknown(what: str, name: str, known: Iterable[str]) -> ConfigError:
    return ConfigError(f"unknown {what} {name}{_nearest(name, known)}", "all settings: adaptrag config --allowed")


def _nearest(name: str, known: Iterable[str]) -> str:
    """The likeliest intended name; the last part alone counts too (`threshold` for `ask.threshold`)."""
    names = {known_name.rpartition(".")[2]: known_name for known_name in known} | {n: n for n in known}
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def _scalar(value: object) -> str | int | float | bool | None:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
