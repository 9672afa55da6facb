"""What a strategy is, what it is given, and the table of strategies.

A strategy is a generator: it yields events and returns its answer. `engine.py` runs it, and nothing else does.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, Self

from adaptrag_cli.calibration import Calibrated, FittedVerifier
from adaptrag_cli.config import (
    AgreementRule,
    AisScore,
    AskSettings,
    ContextPolicy,
    Decision,
    Difference,
    Mode,
    ProbeQuery,
    QueryForm,
    Reader,
    RetrieverName,
    SearchPaths,
    Selection,
    Smoothing,
    Sources,
    Style,
)
from adaptrag_cli.errors import ConfigError, MissingCapability, UnknownName
from adaptrag_cli.events import (
    AnswerSource,
    Candidate,
    DraftOdds,
    Event,
    Extraction,
    GenerationFinished,
    GenerationReused,
    Phase,
    PromptBuilt,
    RunFailed,
    Scalar,
    Setting,
    TokenGenerated,
)
from adaptrag_cli.evidence import EvidenceRule
from adaptrag_cli.models.base import Generation, LanguageModel, Reranker, Token
from adaptrag_cli.retrieval import Retriever
from adaptrag_cli.strategies.table import TABLE

if TYPE_CHECKING:
    from adaptrag_cli.probing.prober import Prober, ProberKind


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything a strategy can be told. Each strategy's defaults are its paper's."""

    threshold: float = 0.001
    """Retrieve when the draft's uncertainty is greater (DTR Tab. 2, for 7B and 72B models)."""
    retriever: RetrieverName = "dense"
    ais: AisScore = "cos"
    top_n: int = 5
    """Chunks per search path."""
    top_k: int = 3
    """Chunks in the final context."""
    style: Style = "short"
    gate: bool = True
    """Decide whether to look up; without it everything is looked up (the papers' "w/o UGT")."""
    selection: Selection = "ais"
    """How chunks of two paths are chosen: by AIS, or a fixed number of each (the papers' "w/o AIS")."""
    paths: SearchPaths = "both"
    """Which paths are searched; one alone gives as many candidates as both would (PAIRS' "w/o DPR")."""
    agreement: AgreementRule = "exact"
    agreement_limit: float = 0.8
    """Token F1 or cosine from which two answers agree."""
    exclude_numbers: bool = False
    """Agreed answers with a number are looked up all the same (PAIRS' "Exclude num")."""
    neighbours: int = 5
    """Labelled questions that skr-knn and adaptive-rag compare with."""
    floor: float = 0.0
    """dtr+verify gives no answer that is less likely right than this."""
    trigger: float = 1.0
    """What methods that watch their own text hold its words or sentences against (METHODS 4.1, 5, 6.1)."""
    mode: Mode = "paper"
    """Trigger as the paper states it, or as its released code has it."""
    smoothing: Smoothing = "code"
    """How ETC smooths the differences (METHODS 4.5)."""
    difference: Difference = "second"
    """Which difference of the entropies ETC watches."""
    context_policy: ContextPolicy = "discard"
    """What becomes of the chunks of a look-up: they serve one sentence, until the next look-up, or to the end."""
    query_form: QueryForm = "masked"
    """FLARE's query: the sentence without its unsure words, a question that the model writes, or the whole sentence."""
    prober: str = ""
    """Which networks read the model's states; empty means the newest ones of the answer model."""
    theta: float = 0.0
    """Added to what speaks for a look-up (METHODS 8)."""
    decision: Decision = "logits"
    """What the probers' layers add up: logits (the paper), or probabilities (its released code)."""
    probe_query: ProbeQuery = "text"
    """What `probing` searches for: question, rationale and answer; with the passages read before; or the question."""
    reader: Reader = "none"
    """Who answers after the reasoning: nobody (its conclusion stands), or one more call over all chunks (IRCoT)."""
    sources: Sources = "both"
    """What steps are answered from: memory or documents as each step decides, or one of them always (DeepRAG)."""
    stride: int = 16
    """Tokens between two look-ups (In-Context RALM)."""
    examples: int = 8
    """Worked examples before the question."""
    max_retrievals: int = 5
    """Look-ups of one question; at the last one what is written stands."""
    max_steps: int = 6
    """Steps of one question; at the last one the answer is asked for (METHODS 9.2)."""
    mask_below: float = 0.4
    """FLARE leaves words less likely than this out of the query (beta)."""
    query_words: int = 35
    """Most words of a query that is put together by attention."""
    look_ahead_tokens: int = 64
    reasoning_tokens: int = 128
    conclusion_tokens: int = 20
    today: str = ""
    """Date that time-aware prompts name; empty means the date of the day."""
    rerank_depth: int = 10
    """Chunks that the reranker reads (METHODS 11)."""
    draft_tokens: int = 32
    pseudo_context_tokens: int = 128
    answer_tokens: int = 32
    cited_answer_tokens: int = 160
    judge_tokens: int = 16
    rationale_tokens: int = 128


@dataclass(frozen=True, kw_only=True)
class Reuse:
    """Texts that the caller already has: what-if and evaluation share work between runs."""

    draft: Generation | None = None
    pseudo_context: Generation | None = None
    prompts: Mapping[Phase, str] = field(default_factory=dict)
    """The prompt of each text, where it is known: strategies ask in different words."""

    def text_for(self, phase: Phase, prompt: str) -> Generation | None:
        """The text of a phase, unless it is known to answer another prompt."""
        texts: Mapping[Phase, Generation | None] = {"draft": self.draft, "pseudo_context": self.pseudo_context}
        return texts.get(phase) if self.prompts.get(phase, prompt) == prompt else None

    @classmethod
    def of_events(cls, events: Iterable[Event]) -> Self:
        """Take the texts out of an earlier run of the same question and model.

        A text that the run did not finish is left out. The ids of tokens are not in the stream, so each is -1.
        """
        events = tuple(events)
        written = _generations(events)
        prompts = {
            event.phase: event.text if isinstance(event, PromptBuilt) else event.prompt
            for event in events
            if isinstance(event, PromptBuilt | GenerationReused)
        }
        texts: dict[Phase, Generation | None] = {
            "draft": written.get("draft"),
            "pseudo_context": written.get("pseudo_context"),
        }
        return cls(
            draft=texts["draft"],
            pseudo_context=texts["pseudo_context"],
            prompts={phase: prompts[phase] for phase, text in texts.items() if text is not None and prompts[phase]},
        )


def _generations(events: Iterable[Event]) -> dict[Phase, Generation]:
    """What each phase wrote; of several calls of a phase, the last one stands."""
    written: dict[Phase, Generation] = {}
    handed_in: GenerationReused | None = None
    tokens: list[Token] = []
    for event in events:
        if isinstance(event, TokenGenerated):
            tokens.append(_token(event))
            continue
        if handed_in is not None and not isinstance(event, RunFailed):
            # Its tokens follow it, and nothing but the next event says that they were the last.
            written[handed_in.phase] = Generation(
                text=handed_in.text, tokens=tuple(tokens), stop_reason="end", prompt_tokens=0, reused_tokens=0
            )
            handed_in = None
        match event:
            case PromptBuilt() | GenerationReused():
                written.pop(event.phase, None)
                tokens = []
                handed_in = event if isinstance(event, GenerationReused) else None
            case GenerationFinished():
                written[event.phase] = Generation(
                    text=event.text,
                    tokens=tuple(tokens),
                    stop_reason=event.stop_reason,
                    prompt_tokens=event.prompt_tokens,
                    reused_tokens=event.reused_tokens,
                )
    return written


def _token(event: TokenGenerated) -> Token:
    return Token(id=-1, text=event.text, logprob=event.logprob, entropy=event.entropy, alternatives=event.alternatives)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a strategy works with."""

    model: LanguageModel
    retriever: Retriever | None
    """None when no index is open; only strategies with `needs_index = False` then run."""
    options: Options = field(default_factory=Options)
    evidence_rule: EvidenceRule | None = None
    draft_odds: tuple[DraftOdds, ...] = ()
    """Bands of uncertainty and how often drafts in them were right, where that was measured for the model."""
    reuse: Reuse = field(default_factory=Reuse)
    judge: LanguageModel | None = None
    """A model that judges in place of the answer model."""
    reranker: Reranker | None = None
    """What reads query and chunk together; opened only for what asks for it."""
    labels: Labels | None = None
    """Questions of an earlier evaluation with what was right for each."""
    calibrated: Calibrated | None = None
    """What was fitted for this model on this machine."""
    verifier: FittedVerifier | None = None
    """What dtr+verify weighs with: the user's own, else the one measured for the model."""
    prober: Prober | None = None
    """The networks that read the model's states; opened only for what asks for them."""
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    """What is known of the question beside its text, such as its subject's popularity."""

    def require_retriever(self) -> Retriever:
        """The retriever, for strategies that need an index."""
        if self.retriever is None:
            raise ConfigError("documents are to be looked up, and no index is open", "adaptrag index FOLDER")
        return self.retriever


@dataclass(frozen=True, kw_only=True)
class LabelledQuestion:
    """A question of an evaluation, and which answers were right (exact match)."""

    id: str
    query: str
    right_from_memory: bool
    right_from_documents: bool
    simplest: str = ""
    """The simplest of `never`, `always` and `ircot` that was right, or what stands for it; empty where not all three
    were asked."""
    facts: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Labelled questions, and the run they come from."""

    source: str
    questions: tuple[LabelledQuestion, ...]
    model: str = ""
    """Name of the model whose answers they judge; empty where that is not known."""
    model_fingerprint: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a strategy returns."""

    text: str
    source: AnswerSource
    extraction: Extraction
    chunk_ids: tuple[str, ...] = ()


class Strategy(Protocol):
    """One method. Instances hold no state between runs."""

    name: str
    paper: str
    summary: str
    """One line for `--help`."""
    requires: frozenset[str]
    """Capabilities of the model, such as `logprobs`."""
    uses: frozenset[str]
    """Names of the options that can change what it does; the others are neither shown nor accepted silently."""
    needs_index: bool
    defaults: Options

    def run(self, query: str, use: Resources) -> Generator[Event, None, Answer]: ...

    def look_up(self, query: str, use: Resources) -> Generator[Event, None, list[Candidate]]:
        """Retrieve and select as `run` does after a decision that said yes; decide and answer nothing.

        Returns the kept chunks, best first.
        """
        ...


def load_strategy(name: str) -> Strategy:
    """Import one strategy.

    Raises:
        UnknownName: no strategy has this name.
    """
    if name not in TABLE:
        raise UnknownName("strategy", name, TABLE)
    module, _, attribute = TABLE[name].partition(":")
    strategy: Strategy = getattr(import_module(module), attribute)()
    return strategy


def wanted_capabilities(strategy: Strategy) -> frozenset[str]:
    """What a model is to be loaded for: what the strategy needs, and what it `wants` and can do without."""
    wants: frozenset[str] = getattr(strategy, "wants", frozenset())
    return strategy.requires | wants


def probed_states(strategy: Strategy) -> ProberKind | None:
    """Of what a strategy has a prober read the states, which it says as `probes`; None where it has none."""
    kind: ProberKind | None = getattr(strategy, "probes", None)
    return kind


def most_examples(strategy: Strategy) -> int:
    """How many worked examples a strategy has: as many as it shows by default, unless it says `most_examples`."""
    most: int = getattr(strategy, "most_examples", strategy.defaults.examples)
    return most


def highest_trigger(strategy: Strategy) -> float:
    """What a trigger may be at most: a strategy that compares with a probability says so as `highest_trigger`."""
    highest: float = getattr(strategy, "highest_trigger", math.inf)
    return highest


def check_capabilities(strategy: Strategy, model: LanguageModel) -> None:
    """Refuse before anything is generated when the model lacks a signal."""
    missing = sorted(strategy.requires - model.info.capabilities)
    if missing:
        raise MissingCapability(
            f"strategy {strategy.name!r} needs {', '.join(missing)}, which model {model.info.name!r} does not give",
            "choose another with --strategy",
        )


def resolve_options(
    strategy: Strategy, ask: AskSettings, origins: Mapping[str, str], *, measured: Sequence[Setting] = ()
) -> tuple[Options, tuple[Setting, ...]]:
    """Lay the user's values over the strategy's, and say where each came from.

    What was `measured` for the answer model stands between the two.

    Raises:
        ConfigError: more worked examples are wanted than there are, or a trigger that nothing reaches.
    """
    given: dict[str, object] = {}
    origin_of: dict[str, str] = {}
    for setting in measured:
        given[setting.name], origin_of[setting.name] = setting.value, setting.origin
    for option in fields(Options):
        value = getattr(ask, option.name, None)
        if value is not None and origins.get(f"ask.{option.name}", "default") != "default":
            given[option.name] = value
            origin_of[option.name] = origins[f"ask.{option.name}"]
    options = replace(strategy.defaults, **given)  # type: ignore[arg-type]
    most = most_examples(strategy)
    if "examples" in strategy.uses and options.examples > most:
        raise ConfigError(
            f"{origin_of['examples']}: {options.examples} examples are wanted, strategy {strategy.name!r} has {most}",
            f"give a number from 0 to {most}",
        )
    highest = highest_trigger(strategy)
    if "trigger" in strategy.uses and options.trigger > highest:
        raise ConfigError(
            f"{origin_of['trigger']}: trigger {options.trigger:g} is never reached, strategy {strategy.name!r} "
            f"compares with a probability",
            f"give a number from 0 to {highest:g}",
        )
    settings = tuple(
        Setting(
            name=o.name, value=getattr(options, o.name), origin=origin_of.get(o.name, f"default of {strategy.name}")
        )
        for o in fields(Options)
        if o.name in strategy.uses
    )
    return options, settings


def unused_flags(strategy: Strategy, origins: Mapping[str, str]) -> tuple[str, ...]:
    """Flags that were typed and change nothing with this strategy."""
    names = [option.name for option in fields(Options) if option.name not in strategy.uses]
    typed = [origins.get(f"ask.{name}", "") for name in names]
    return tuple(origin for origin in typed if origin.startswith("--"))
