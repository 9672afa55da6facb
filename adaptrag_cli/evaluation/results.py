"""What an evaluation leaves on disk: one manifest, one line per answered question, one trace per line.

    OUT/manifest.json    what was measured, with what: two tables can be compared, or refused
    OUT/results.jsonl    a `Result` per cell, question set, strategy and question; appended, never rewritten
    OUT/traces/...       the run itself, gzipped, for `adaptrag tui --trace` and to recompute every figure
    OUT/cache.sqlite     texts and vectors that several strategies need (`cache.py`); may be deleted

A result is a function of its trace and its question (and, for `gold_chunks`, of the index), so figures can be
recomputed from traces.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from adaptrag_cli.disk import replace_durably
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.events import AnswerSource, Event, Record, Scalar, Setting, encode_event
from adaptrag_cli.json_lines import RecordLog, read_records
from adaptrag_cli.stepwise.timing import FirstTrigger

FORMAT = 1
MANIFEST = "manifest.json"
RESULTS = "results.jsonl"
TRACES = "traces"
_ANEW = "evaluate again into a new --out"


class StrategySpec(Record, frozen=True, kw_only=True):
    """A strategy with options of its own, as `--strategies` names it: `dpr-ais:paths=query:ais=sum`."""

    label: str
    strategy: str
    overrides: dict[str, Scalar] = msgspec.field(default_factory=dict)
    """Settings by dotted name (`ask.paths`)."""


class SetInfo(Record, frozen=True, kw_only=True):
    """A question set as it was read."""

    name: str
    format: str
    fingerprint: str
    """SHA-256 of the file."""
    questions: tuple[str, ...]
    """Ids of the questions that are asked, in order."""
    digests: tuple[str, ...]
    """`calibration.question_digest` of each."""


class Cell(Record, frozen=True, kw_only=True):
    """One combination of a grid (`--vary`): everything but strategy and question."""

    name: str
    """`base`, or `top_k=5,encoder=e5` for a varied one."""
    overrides: dict[str, Scalar] = msgspec.field(default_factory=dict)
    model: str
    model_fingerprint: str
    encoder: str
    encoder_identity: str = ""
    """What the cache knows the encoder's vectors by (`cached.encoder_identity`); empty where no set has a corpus."""
    calibration: str = ""
    """Source of the user's calibration in use; empty for none."""
    calibration_digest: str = ""
    calibrated_on: int = 0
    """How many of the questions it was fitted on: their numbers flatter what was calibrated."""
    indexes: dict[str, str]
    """Index fingerprint by question set; empty where a set has no corpus."""
    settings: dict[str, tuple[Setting, ...]]
    """By strategy label: every setting that could change its answers, with its origin."""
    lanes: int
    """Questions that were decoded as one batch."""
    is_bit_equal: bool
    """Whether the batch gives the numbers of one-by-one."""


class Manifest(Record, frozen=True, kw_only=True):
    """What was measured, and with what."""

    format: int = FORMAT
    created: str
    adaptrag_version: str
    versions: dict[str, str]
    """Of the libraries that decide numbers."""
    machine: str
    seed: int
    limit: int | None
    sets: tuple[SetInfo, ...]
    strategies: tuple[StrategySpec, ...]
    cells: tuple[Cell, ...]
    cache: str
    """File of the cache; relative to the run where it is inside."""


class ScoredChunk(Record, frozen=True, kw_only=True):
    """A candidate of the final selection, without its text."""

    chunk_id: str
    document: str
    query_score: float
    pseudo_context_score: float | None
    score: float | None
    query_rank: int | None
    """Rank on the query path; None when only the other found it."""
    pseudo_context_rank: int | None
    kept: bool
    gold: bool


class Result(Record, frozen=True, kw_only=True):
    """One question answered by one strategy. Shares and scores are from 0 to 1."""

    cell: str
    set: str
    strategy: str
    """Label of the `StrategySpec`."""
    question_id: str
    query: str
    golds: tuple[str, ...]
    meta: dict[str, Scalar] = msgspec.field(default_factory=dict)
    prediction: str
    source: AnswerSource
    failure: str = ""
    """Why there is no answer; the prediction is then empty and counts as wrong."""
    em: float
    f1: float
    f1_first_gold: float
    acc: float
    retrieved: bool
    """Whether documents were looked up."""
    uncertainty: float | None
    """Of the draft, where one was written."""
    draft: str | None
    """The answer from memory (parsed), where one was written."""
    draft_em: float | None
    draft_f1: float | None
    answer_uncertainty: float | None
    """Mean NLL of the answer from documents."""
    documents: tuple[str, ...]
    """Documents of the chunks the answer was read from, best first, with repeats."""
    recall: float | None
    """Of gold documents among those; None where nothing was looked up or nothing is gold."""
    all_gold: bool | None
    candidates: tuple[ScoredChunk, ...] = ()
    query_pseudo_similarity: float | None = None
    query_weight: float | None = None
    pseudo_context: str | None = None
    look_ups: int | None = None
    """How often documents were looked up; None of results from before this was counted."""
    sub_queries: int | None = None
    """How much was asked step by step, without repeats; None of strategies that do not."""
    asked: tuple[str, ...] = ()
    """Those sub-queries, in order."""
    well_formed: bool | None = None
    """Whether what was asked step by step kept to its form and came to its answer by itself."""
    triggers: int = 0
    """Look-ups that were asked for because something did not keep to a threshold."""
    first_trigger: FirstTrigger | None = None
    """Where the first look-up was asked for."""
    entropies: tuple[float, ...] = ()
    """Of the tokens of the reasoning that was written before anything was looked up, in nats."""
    gold_chunks: tuple[str, ...] = ()
    """Chunk ids of the gold passages, found or not."""
    llm_calls: int
    searches: int
    prompt_tokens: int
    reused_tokens: int
    generated_tokens: int
    seconds: float
    """Working time as if the strategy had run alone: what was taken from the cache counts with the time it took."""
    trace: str
    """Path of the trace inside the run's folder."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What a run does once."""
        return (self.cell, self.set, self.strategy, self.question_id)


class RunData(Record, frozen=True, kw_only=True):
    """A run read back."""

    folder: str
    manifest: Manifest
    results: tuple[Result, ...]

    @property
    def name(self) -> str:
        """Name of the folder."""
        return Path(self.folder).name

    def by_strategy(self, *, cell: str, set: str) -> Mapping[str, Mapping[str, Result]]:
        """Results of one cell and set: strategy label, then question id; in the manifest's order."""
        labels = [spec.label for spec in self.manifest.strategies]
        table: dict[str, dict[str, Result]] = {label: {} for label in labels}
        for result in self.results:
            if result.cell == cell and result.set == set:
                table.setdefault(result.strategy, {})[result.question_id] = result
        return table


def result_log(folder: Path) -> RecordLog:
    """Where the results of a run are appended."""
    return RecordLog(folder / RESULTS)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write it whole or not at all."""
    replace_durably(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def read_manifest(folder: Path) -> Manifest:
    """Read what a run measures.

    Raises:
        ConfigError: the folder holds no run of this version.
    """
    path = folder / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConfigError(f"{folder} holds no evaluation", "make one with: adaptrag eval DATA --out FOLDER") from error
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"{path}: no manifest of this version: {error}", _ANEW) from error


def read_results(folder: Path) -> tuple[Result, ...]:
    """Read all finished lines; the last one may have been cut off by a kill and is then left out.

    Raises:
        ConfigError: another line is broken.
    """
    results: dict[tuple[str, str, str, str], Result] = {}
    decode = msgspec.json.Decoder(Result).decode
    for result in read_records(folder / RESULTS, decode, what="no result", hint=_ANEW):
        results.setdefault(result.key, result)
    return tuple(results.values())


def trace_path(cell: str, set_name: str, label: str, question_id: str) -> Path:
    """Where a trace stands inside the run's folder."""
    return Path(TRACES, *map(_file_name, (cell, set_name, label)), f"{_file_name(question_id)}.jsonl.gz")


def write_events(path: Path, events: Sequence[Event]) -> None:
    """Write a trace whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = b"".join(encode_event(event) + b"\n" for event in events)
    replace_durably(path, gzip.compress(lines, mtime=0))


def _file_name(text: str) -> str:
    """A name that every file system takes; a digest keeps what was changed apart."""
    plain = re.sub(r"[^A-Za-z0-9._=+-]", "_", text)[:80].strip(".") or "_"
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def read_run(folder: Path) -> RunData:
    """Read a whole run.

    Raises:
        ConfigError: it is none, or broken.
    """
    return RunData(folder=str(folder), manifest=read_manifest(folder), results=read_results(folder))


def require_comparable(runs: Iterable[RunData]) -> None:
    """Refuse runs whose numbers do not belong into one table. Other models or settings are lines of their own.

    Raises:
        ConfigError: sets of the same name were read from other files, or ask other questions.
    """
    seen: dict[str, tuple[str, SetInfo]] = {}
    for run in runs:
        for info in run.manifest.sets:
            name, first = seen.setdefault(info.name, (run.name, info))
            if first.questions != info.questions or first.fingerprint != info.fingerprint:
                raise ConfigError(
                    f"{name} and {run.name} ask other questions of {info.name}",
                    "evaluate both with the same DATA, --limit and --seed",
                )
