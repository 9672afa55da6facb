"""Every prompt, with its source. Each is one user turn; the model's own chat template wraps it.

Where the wording is ours or DTR's the question stands first, so that the KV cache of the draft serves the later calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Passage:
    """What a prompt shows of a chunk."""

    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.title}\n{self.text}" if self.title else self.text


def direct(query: str) -> str:
    """Ask for a draft without documents (DTR, Fig. 11)."""
    return f"{query}\nAnswer the question using a single word or phrase."


def pseudo_context(query: str) -> str:
    """Ask for an imagined passage (DTR, Fig. 13)."""
    return f"{query}\nWrite a passage to answer this question."


def with_passages(query: str, passages: Sequence[Passage]) -> str:
    """Ask for a short answer from passages, best first (DTR, Fig. 12; the title line as in the released code)."""
    context = "\n".join(str(passage) for passage in passages)
    return f"{query}\n{context}\nAnswer the question based on the above context using a single word or phrase."


def cited(query: str, passages: Sequence[Passage]) -> str:
    """Ask for one to three sentences from passages (ours: the papers only ask for a phrase)."""
    context = "\n".join(str(passage) for passage in passages)
    return (
        f"{query}\n{context}\n"
        "Answer the question based on the above context in one to three complete sentences. "
        "Use the names and numbers exactly as the context gives them."
    )


def pairs_direct(query: str) -> str:
    """Ask for a draft between tags (PAIRS, Fig. 9 b; its line breaks are ours: the paper's text has lost them)."""
    return (
        "Your task is to answer the given question. Please directly provide the concise answer inside <answer> and "
        f"</answer> without detailed description, e.g., <answer>Beijing</answer>.\nQuestion: {query}"
    )


def pairs_passage(query: str) -> str:
    """Ask for an imagined passage (PAIRS, Fig. 9 a)."""
    return f"Your task is to write a detailed passage to answer the given question.\nQuestion: {query}"


def pairs_with_context(query: str, passages: Sequence[Passage]) -> str:
    """Ask for an answer between tags from passages, best first, or from the imagined one (PAIRS, Fig. 9 c)."""
    context = "\n".join(str(passage) for passage in passages)
    return (
        "Your task is to answer the given question based on the Context. Please directly provide the answer inside "
        "<answer> and </answer> without detailed description, e.g., <answer>Beijing</answer>.\n"
        f"Context: {context}\nQuestion: {query}"
    )
