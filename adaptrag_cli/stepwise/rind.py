"""When to look up by uncertainty and attention received: DRAGIN's RIND (METHODS 5).

Paper: S_i = H_i a_max(i) s_i > theta, where a_max(i) is the most that a later token pays and s_i is 0 for function
words. Code: the attention is normalised over the sentence, the token's own row counts, and content words are told apart
only after a word has stopped the sentence; so a function word may stop it without a content word that does.
"""

from __future__ import annotations

from collections.abc import Sequence

from adaptrag_cli.config import Mode
from adaptrag_cli.stepwise.firing import Watched, exceeds, finite, sentence_normalised
from adaptrag_cli.stepwise.spans import Word, pooled


def rind_scores(
    entropies: Sequence[float], attention: Sequence[float], words: Sequence[Word], *, mode: Mode = "paper"
) -> tuple[float, ...]:
    """The score of each word from its entropy (nats) and its attention: what it receives (code: its share)."""
    return tuple(
        entropy * paid if word.is_content or mode == "code" else 0.0
        for entropy, paid, word in zip(entropies, attention, words, strict=True)
    )


def watch_rind(
    words: Sequence[Word],
    token_entropies: Sequence[float],
    token_attention: Sequence[float],
    threshold: float,
    *,
    mode: Mode = "paper",
) -> tuple[Watched, ...]:
    """Hold every word of one call against the threshold, function words too: score > threshold fires.

    Args:
        words: all words of the call, by the rule `dragin`.
        token_entropies: one for each token; a word has their mean.
        token_attention: what each token receives, mean over heads: at most from a later token (paper), or its own row
            included (code). A word has the greatest of its tokens' (paper) or their sum (code).
        threshold: theta.
        mode: the form.
    """
    entropies = pooled(words, token_entropies, "mean")
    attention = pooled(words, token_attention, "sum" if mode == "code" else "max")
    if mode == "code":
        attention = sentence_normalised(attention, words)
    scores = rind_scores(entropies, attention, words, mode=mode)
    return tuple(
        Watched(
            word=number,
            sentence=word.sentence,
            is_content=word.is_content,
            entropy=entropy,
            attention=finite(received),
            value=finite(score),
            fires=exceeds(score, threshold),
        )
        for number, (word, entropy, received, score) in enumerate(zip(words, entropies, attention, scores, strict=True))
    )
