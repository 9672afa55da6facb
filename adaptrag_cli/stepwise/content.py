"""Which words carry content of their own: by a list of English function words, as ETC's paper words it (4.2).

The papers' released code keeps five parts of speech instead (noun, adjective, verb, proper noun, number), which needs a
tagger. The list leaves out what they leave out: articles, pronouns, prepositions, conjunctions, auxiliaries, and
adverbs that join sentences. Numbers and names are content.
"""

from __future__ import annotations

import re

from adaptrag_cli.words import STOP_WORDS, folded, split_sentences, words

_MORE_TEXT = """
against ain along almost already always amid among amongst another anybody anyone anything apart around aside away
behind beneath beside besides beyond d despite else ever every everybody everyone everything except hence herself
himself instead ll m myself never nobody none nonetheless nothing often onto ours ourselves perhaps quite rather re
really s shall somebody somehow someone something sometimes somewhat still t theirs themselves thereby therefore
throughout together toward towards unless unlike ve via whatever whenever whereas wherever whichever whoever yours
yourself yourselves across
"""
FUNCTION_WORDS = (STOP_WORDS | frozenset(_MORE_TEXT.split())) - {"one"}
"""Function words, folded; with the ends of contractions, which a tokenizer may split off. `one` is a number."""

_NEGATED = re.compile(r"n['’]t$")
_CONTRACTED = re.compile(r"['’](?:d|ll|m|re|ve)$")
_ALSO_NAMES = frozenset({"may", "will"})
_CAPITAL_FUNCTION_WORDS = frozenset({"A", "I"})


def is_content(text: str, *, begins_sentence: bool = False) -> bool:
    """Whether a group of tokens holds a content word; at the beginning of a sentence a capital says nothing."""
    return any(
        _is_content_word(word, begins_sentence=begins_sentence and not number)
        for number, word in enumerate(words(text))
    )


def content_words(text: str) -> list[str]:
    """The content words of a text in its order, as they stand."""
    return [
        word
        for sentence in split_sentences(text)
        for number, word in enumerate(words(sentence))
        if _is_content_word(word, begins_sentence=not number)
    ]


def _is_content_word(word: str, *, begins_sentence: bool) -> bool:
    plain = folded(word)
    if _NEGATED.search(plain) or _CONTRACTED.sub("", plain) not in FUNCTION_WORDS:
        return not _NEGATED.search(plain)
    if word.isupper() and word not in _CAPITAL_FUNCTION_WORDS:
        return True  # US, IT, WHO; the initials of a name
    return plain in _ALSO_NAMES and word[0].isupper() and not begins_sentence
