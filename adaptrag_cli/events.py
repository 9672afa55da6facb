"""The trace: everything that happens while a question is answered, as one stream of small values.

The command line, `--json`, trace files, the terminal interface and evaluation all read this stream and nothing else.
Events are frozen msgspec structs (a tagged union with validation, so that a trace file from elsewhere is checked when
read). Fields are str, int, float, bool, None, small records, or tuples of these; floats are finite.

Laws, which the tests hold every trace to that they make:
first is `run_started`; exactly one terminal event (`run_finished` or `run_failed`), last; `seq` is 0..n without gaps;
time never goes back; a selected chunk came from a path; every `path_retrieved` follows a decision that said yes, unless
it says that the decision was made from it; the answer is what its `extraction` says, of tokens and sentences that
stand in the stream. A method may discard tokens that it has written (`tokens_discarded`): they stay in the stream and
count for nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from adaptrag_cli.errors import ConfigError

SCHEMA_VERSION = 1
DOCUMENTS_DO_NOT_TELL = "The documents do not tell."
"""The answer of a run whose documents do not hold one."""

Phase = Literal[
    "draft",
    "second_draft",
    "judge",
    "pseudo_context",
    "rationale",
    "reasoning",
    "search_query",
    "sub_query",
    "intermediate_answer",
    "answer",
]
"""What a call of the model writes: an answer from memory; the answer that the pseudo-context gives (PAIRS); a judge's
verdict; an imagined passage; a chain of thought that widens the query; a part of the chain of thought that leads to the
answer, which all calls write together; a query to search with; the next line of a narrative of steps, which asks
something or gives the answer; the answer to what a step asked; the answer from chunks, or the end of a chain of thought
or of steps that did not come to their answer."""
PathName = Literal["query", "pseudo_context", "expanded", "reasoning"]
"""What is searched for: the question, the imagined passage, the question widened by what the model wrote, or a query
made of the chain of thought."""
AnswerSource = Literal["draft", "documents", "none"]
Extraction = Literal["whole", "draft", "tagged", "cited", "reasoned", "concluded", "marked", "final", "none"]
"""How an answer comes from the stream: the trimmed tokens of the phase `answer` (whole) or `draft`; what stands between
`<answer>` tags in the one of them that the source names (tagged); the sentences with their markers, a space between
them (cited); what the chain of thought concludes (`answers.concluded_answer` of the phases `reasoning` and `answer`);
what the phase `answer`, itself a chain of thought, concludes, or its first line (concluded); what stands behind
"Answer:" in the phase `reasoning`, or in the phase `answer` (`answers.marked_answer`, marked); what the last line of
the phase `sub_query` gives as the final answer, or the phase `answer` (`answers.final_answer`, final); or
`DOCUMENTS_DO_NOT_TELL` (none)."""
StopReason = Literal["end", "stop", "length"]
EntropySupport = Literal["full", "top_k"]
ProbeRule = Literal["logits", "probabilities"]
"""What Probing-RAG sums over the layers: logits (the paper), or their softmax (its released code)."""
_PROBE_SIGNS: Mapping[ProbeRule, tuple[str, str]] = {"logits": (">", "<="), "probabilities": (">=", "<")}
"""How the two sums compare where it is looked up, and where it is not."""
Scalar = str | int | float | bool | None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A value inside an event."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{type(self).__name__}.{name} must be finite, got {value}")


class Alternative(Record, frozen=True, kw_only=True):
    """One of the best candidates for a token."""

    text: str
    logprob: float
    """Natural log of the probability."""


class Setting(Record, frozen=True, kw_only=True):
    """One setting that can change the answer, and where its value came from."""

    name: str
    value: Scalar
    origin: str
    """For example `paper`, `catalogue`, `adaptrag.toml`, `ADAPTRAG_STRATEGY`, `--threshold`."""


class RankedChunk(Record, frozen=True, kw_only=True):
    """A chunk as one search path found it."""

    chunk_id: str
    document: str
    location: str
    """Place to cite, such as `handbook.pdf p. 3` or `notes.md:41-58`."""
    title: str
    """Title or heading path of the chunk; may be empty."""
    text: str
    rank: int
    """From 1."""
    score: float
    """Higher is better."""


class Candidate(Record, frozen=True, kw_only=True):
    """A chunk that was scored for the final context. Angles are in radians."""

    chunk_id: str
    document: str
    location: str
    title: str
    text: str
    paths: tuple[PathName, ...]
    query_score: float
    """Inner product with the query vector (s1, DTR Eq. 5)."""
    pseudo_context_score: float | None
    """Inner product with the pseudo-context vector (s2, DTR Eq. 6); None where there is none."""
    query_angle: float
    pseudo_context_angle: float | None
    ais_score: float | None
    """Score of the chosen kind; None when the strategy selects without AIS. The sum (Eq. 4) is s1 + s2."""
    rank: int
    """Rank in the selection order, from 1."""
    kept: bool


class DraftOdds(Record, frozen=True, kw_only=True):
    """How often drafts of about the same uncertainty were right, where that was measured for the model."""

    above: float
    """The band of uncertainties: above < u <= up_to."""
    up_to: float | None
    """None in the last band, which has no end."""
    right: int
    drafts: int


class StageTime(Record, frozen=True, kw_only=True):
    """Working time of one stage."""

    stage: str
    ms: float


class Counts(Record, frozen=True, kw_only=True):
    """What the run cost."""

    llm_calls: int = 0
    searches: int = 0
    prompt_tokens: int = 0
    """Tokens of all prompts, reused ones included."""
    reused_tokens: int = 0
    """Prompt tokens taken from the KV cache instead of being evaluated."""
    generated_tokens: int = 0


def _kind(class_name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()


class Event(Record, frozen=True, kw_only=True, tag_field="kind", tag=_kind):
    """One step of a run. The engine stamps `seq` and `elapsed_ms`; strategies leave them alone."""

    seq: int = -1
    elapsed_ms: float = 0.0


class RunStarted(Event, frozen=True, kw_only=True):
    """The question and everything that can change the answer."""

    query: str
    strategy: str
    settings: tuple[Setting, ...]
    model: str
    model_fingerprint: str
    index: str
    index_fingerprint: str
    gpu_layers_requested: str
    """`auto`, `all` or a number."""
    gpu_layers_used: int
    gpu_reason: str
    threads: int
    context_length: int
    entropy_support: EntropySupport
    seed: int = 0
    adaptrag_version: str
    schema_version: int = SCHEMA_VERSION


class PromptBuilt(Event, frozen=True, kw_only=True):
    """A prompt that is about to be evaluated, exactly as the model sees it."""

    phase: Phase
    text: str
    tokens: int
    chunk_ids: tuple[str, ...] = ()


class TokenGenerated(Event, frozen=True, kw_only=True):
    """One generated token, with numbers from the raw logits (before any penalty or temperature)."""

    phase: Phase
    step: int
    """From 0, within the phase."""
    text: str
    logprob: float
    entropy: float
    """Entropy of the next-token distribution, in nats."""
    alternatives: tuple[Alternative, ...] = ()


class GenerationFinished(Event, frozen=True, kw_only=True):
    """One LLM call is over."""

    phase: Phase
    text: str
    stop_reason: StopReason
    prompt_tokens: int
    reused_tokens: int
    generated_tokens: int


class GenerationReused(Event, frozen=True, kw_only=True):
    """The caller handed in this text, so no LLM call was made for the phase."""

    phase: Phase
    text: str
    prompt: str = ""
    """The prompt that the text answers, exactly as the model would have seen it; empty where it is not known."""


class UncertaintyMeasured(Event, frozen=True, kw_only=True):
    """An uncertainty; higher is less sure. None when undefined, with the reason."""

    name: str
    value: float | None
    reason: str = ""


class WordMeasured(Event, frozen=True, kw_only=True):
    """A word of a text that is watched while it is written (ETC, DRAGIN, FLARE): its numbers, and their threshold.

    Entropies are in nats. A number that the word does not have (the first words have no differences) is None.
    """

    phase: Phase
    first_step: int
    """The token of the phase's last call with which the word begins."""
    step: int
    """The token with which it ends."""
    text: str
    entropy: float
    first_difference: float | None = None
    second_difference: float | None = None
    attention: float | None = None
    """What the method weighs with (METHODS 4.6, 5)."""
    value: float | None = None
    """What is held against the threshold: the smoothed second difference (ETC), the RIND score (DRAGIN), 1 - p of its
    least likely token, or the mean of its sentence (FLARE)."""
    threshold: float | None = None
    is_absolute: bool = False
    """The size of the value is held against it, so that sharp drops count as rises do (ETC's paper)."""
    fires: bool = False
    """The method looks up because of this word."""


class TokensDiscarded(Event, frozen=True, kw_only=True):
    """The end of what the phase's last call wrote does not count any more."""

    phase: Phase
    from_step: int
    """The first discarded token."""
    text: str
    reason: str


class WeightedWord(Record, frozen=True, kw_only=True):
    """A word of a query, and how much it weighed when it was chosen."""

    text: str
    weight: float | None = None
    """Attention, where that chose the words."""


class QueryBuilt(Event, frozen=True, kw_only=True):
    """A query made of a text that is being written."""

    method: str
    """`attention`, `content_words` (without attention), `masked`, `written`, `sentence`, `tail`, `question`,
    `rationale` or `rationale_passages` (Probing-RAG), or `sub_query` (what a step asks)."""
    text: str
    words: tuple[WeightedWord, ...] = ()
    """In the order of the query; empty where it was not put together of words."""


class AgreementMeasured(Event, frozen=True, kw_only=True):
    """Whether two answers from memory say the same (PAIRS section 3)."""

    rule: str
    """`exact`, `containment`, `f1` or `cosine`."""
    first: str
    second: str
    value: float
    """How much they agree by the rule, from 0 to 1 (a cosine may be negative); empty answers have 0."""
    limit: float
    """They agree from here on."""
    agree: bool


class LayerLogits(Record, frozen=True, kw_only=True):
    """What the prober of one layer says; None where it is no number."""

    layer: int
    """From 0."""
    retrieve: float | None
    stop: float | None


class ProbeMeasured(Event, frozen=True, kw_only=True):
    """What probers read from the model's states while it wrote, or read the question (METHODS 8)."""

    round: int
    """From 0: how many look-ups went before."""
    layers: tuple[LayerLogits, ...]
    """Empty where there was no state to read."""
    retrieve_score: float | None
    """Sum over the layers, as the rule says; None where it is no number."""
    stop_score: float | None
    theta: float
    """Looked up when the retrieve score plus this is greater."""
    rule: ProbeRule
    retrieve: bool
    is_undefined: bool = False
    """A score is no number, or there was no state: then it is looked up."""

    @property
    def comparison(self) -> str:
        """How the sums compare: `1.75 + 0.50 > 1.00`; empty where they are no numbers."""
        if self.retrieve_score is None or self.stop_score is None or self.is_undefined:
            return ""
        theta = f" {'-' if self.theta < 0 else '+'} {abs(self.theta):.2f}" if self.theta else ""
        sign = _PROBE_SIGNS[self.rule][0 if self.retrieve else 1]
        return f"{self.retrieve_score:.2f}{theta} {sign} {self.stop_score:.2f}"


class SubQueryAsked(Event, frozen=True, kw_only=True):
    """A step of a narrative begins: what is asked in it (METHODS 9.1)."""

    step: int
    """From 0."""
    text: str
    is_repeated: bool = False
    """An earlier step has asked the same, so the steps end here."""


class StepDecided(Event, frozen=True, kw_only=True):
    """Whether a step looks up what it asks, or answers it from memory; the decision follows as one of the run."""

    step: int
    retrieve: bool
    reason: str
    answer_logprob: float | None = None
    """Of the first token of the marker that answers from memory, over the whole vocabulary; None: not measured."""
    search_logprob: float | None = None
    """And of the one that searches."""
    prompt_tokens: int = 0
    """Of the evaluation that measured them."""
    reused_tokens: int = 0

    @property
    def llm_calls(self) -> int:
        """1 where the model was asked: it evaluated what was written, for one token."""
        return 0 if self.log_odds is None else 1

    @property
    def log_odds(self) -> float | None:
        """How much likelier the model searches than that it answers from memory; above 0 it searches."""
        if self.answer_logprob is None or self.search_logprob is None:
            return None
        return self.search_logprob - self.answer_logprob


class StepAnswered(Event, frozen=True, kw_only=True):
    """The intermediate answer of a step; it may be empty."""

    step: int
    text: str
    chunk_ids: tuple[str, ...] = ()
    """The chunks that this step has found and read."""
    retrieved: bool


class DecisionMade(Event, frozen=True, kw_only=True):
    """Whether documents are looked up, and why."""

    retrieve: bool
    uncertainty: float | None
    threshold: float | None
    reason: str
    draft_odds: DraftOdds | None = None
    """None where nothing was measured for the model, or the strategy measures no draft."""


class PseudoContextWritten(Event, frozen=True, kw_only=True):
    """The passage the model imagined; it is a search key, never evidence."""

    text: str


class PathRetrieved(Event, frozen=True, kw_only=True):
    """Chunks that one search path found, best first."""

    path: PathName
    retriever: str
    query_text: str
    chunks: tuple[RankedChunk, ...]
    before_decision: bool = False
    """The strategy searches before it decides, and decides from what it found."""


class ChunksReranked(Event, frozen=True, kw_only=True):
    """Pairs of a text and a chunk that a reranker read together."""

    reranker: str
    """Name of the cross-encoder, or of the answer model that was asked about relevance."""
    path: PathName
    """The text that the chunks were read against."""
    chunk_ids: tuple[str, ...]
    scores: tuple[float, ...]
    """Raw logits or log-odds, one for each chunk; higher is better."""
    llm_calls: int = 0
    """Calls of the answer model; 0 for a cross-encoder."""
    prompt_tokens: int = 0
    reused_tokens: int = 0


class ChunksSelected(Event, frozen=True, kw_only=True):
    """All scored chunks in selection order, the kept ones first."""

    score_name: str
    """`cos`, `sum`, `dynamic` or `rerank` for AIS, `split` for a fixed number of each path; `query`, `expanded` or
    `reasoning` for plain top-k of that path."""
    query_pseudo_similarity: float | None = None
    """Inner product of query and pseudo-context vectors."""
    query_weight: float | None = None
    """PAIRS' alpha, for `dynamic` only."""
    candidates: tuple[Candidate, ...]


class ChunkPeeked(Event, frozen=True, kw_only=True):
    """The best chunk of one query-path search after a skipped retrieval: shown, not consulted, never counted."""

    chunk: RankedChunk | None


class SentenceCited(Event, frozen=True, kw_only=True):
    """A finished sentence of the answer and the selected chunks (by id) that hold its names and numbers."""

    text: str
    end_step: int
    """The sentence ends before this step of the answer phase."""
    chunk_ids: tuple[str, ...]
    markers: tuple[int, ...]
    """Numbers of those chunks in the list of sources, from 1."""

    @property
    def marked_text(self) -> str:
        """The sentence with its markers behind it: `Quiet time is 21:30. [1] [2]`."""
        return self.text.strip() + "".join(f" [{marker}]" for marker in self.markers)


class EvidenceJudged(Event, frozen=True, kw_only=True):
    """Whether the consulted chunks tell the answer, by the stated rule."""

    supported: bool
    answer_uncertainty: float | None
    best_query_score: float | None
    reason: str


class AnswersWeighed(Event, frozen=True, kw_only=True):
    """How likely draft and answer from documents are right, and which is given (dtr+verify)."""

    draft_chance: float
    documents_chance: float
    floor: float
    """Below it neither is given."""
    chosen: AnswerSource


class WarningRaised(Event, frozen=True, kw_only=True):
    """Something the user should know; the run goes on."""

    code: str
    message: str


class RunFinished(Event, frozen=True, kw_only=True):
    """The answer. `answer_source` says where it came from."""

    answer: str
    answer_source: AnswerSource
    extraction: Extraction
    chunk_ids: tuple[str, ...]
    counts: Counts
    timings: tuple[StageTime, ...]


class RunFailed(Event, frozen=True, kw_only=True):
    """The run ended without an answer."""

    error: str
    message: str
    hint: str
    exit_code: int


AnyEvent = (
    RunStarted
    | PromptBuilt
    | TokenGenerated
    | GenerationFinished
    | GenerationReused
    | UncertaintyMeasured
    | WordMeasured
    | TokensDiscarded
    | QueryBuilt
    | AgreementMeasured
    | ProbeMeasured
    | SubQueryAsked
    | StepDecided
    | StepAnswered
    | DecisionMade
    | PseudoContextWritten
    | PathRetrieved
    | ChunksReranked
    | ChunksSelected
    | ChunkPeeked
    | SentenceCited
    | EvidenceJudged
    | AnswersWeighed
    | WarningRaised
    | RunFinished
    | RunFailed
)

_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
_encoder = msgspec.json.Encoder()


def encode_event(event: Event) -> bytes:
    """One JSON line (without the newline)."""
    return _encoder.encode(event)


def decode_event(line: bytes | str) -> AnyEvent:
    """Read one JSON line.

    Raises:
        ConfigError: the line is not an event of this schema.
    """
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(
            f"not a trace event: {error}", "record one with: adaptrag ask QUESTION --trace FILE"
        ) from error


def stage_of(event: Event) -> str:
    """The stage whose work ended with this event, as `RunFinished.timings` names it."""
    match event:
        case PromptBuilt() | TokenGenerated() | GenerationFinished() | GenerationReused():
            return "write_query" if event.phase == "search_query" else event.phase  # search_query: searching for it
        case UncertaintyMeasured() | WordMeasured() | ProbeMeasured() | TokensDiscarded() | DecisionMade():
            return "decide"
        case SubQueryAsked():
            return "sub_query"
        case StepDecided():
            return "decide"
        case StepAnswered():
            return "intermediate_answer"
        case QueryBuilt():
            return "build_query"
        case AgreementMeasured():
            return "agree"
        case PseudoContextWritten():
            return "pseudo_context"
        case PathRetrieved():
            return f"search_{event.path}"
        case ChunksReranked():
            return "rerank"
        case ChunksSelected():
            return "select"
        case SentenceCited() | EvidenceJudged():
            return "judge"
        case AnswersWeighed():
            return "weigh"
        case ChunkPeeked():
            return "peek"
        case _:
            return "setup"
