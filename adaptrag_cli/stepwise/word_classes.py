"""How many words of some classes a question has (DeepRAG, Fig. 8), by lists and endings, without a tagger.

WH-words, conjunctions and auxiliaries are listed. A verb is an auxiliary, one of the verbs that questions often have,
or a lower-case word in -ed or -ing. A noun is any other content word but numbers, adverbs in -ly, and adjectives by
list or ending; each word of a name counts. Conjunctions are all that join clauses or names (the paper: and, or), each
word by itself. So counts of nouns and verbs are rough: good for comparing sets of questions, and not for one question.
English only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Literal, get_args

from adaptrag_cli.stepwise.content import content_words
from adaptrag_cli.words import folded, words

WordClass = Literal["wh", "noun", "verb", "conjunction"]
CLASSES: tuple[WordClass, ...] = get_args(WordClass)

_ENDING = re.compile(r"['’](?:d|ll|m|re|s|ve)$|n['’]t$")
_WH_TEXT = """
who whom whose what which when where why how
"""
_CONJUNCTIONS_TEXT = """
and or but nor yet so because although though while whereas if unless since whether both either neither
"""
_AUXILIARIES_TEXT = """
am is are was were be been being do does did done have has had having can could will would shall should may might must
"""
_VERBS_TEXT = """
born made make makes wrote write writes written won win wins began begin begun came come comes went go goes gone gave
give gives given took take takes taken held hold holds led lead leads left leave leaves found find finds founded known
know knew became become becomes built build builds sang sing sung set sold sell bought buy taught teach fought fight
lost lose met meet ran run runs saw see seen said say spoke speak spoken wore wear worn shot sent send spent spend
stood stand told tell thought think drew draw drawn fell fall fallen flew fly grew grow grown rose rise ruled belong
belongs live lives die dies play plays work works study studies star stars share shares happen happens mean means
appear appears exist exists use uses get gets got include includes lit burn burnt
"""
_ADJECTIVES_TEXT = """
old older oldest new newer newest young younger youngest big bigger biggest large larger largest small smaller
smallest long longer longest short shorter shortest high higher highest low lower lowest early earlier earliest late
later latest good better best bad worse worst great first last next main same other more most many much few true real
own former major famous
"""
_WH, _CONJUNCTIONS, _AUXILIARIES, _VERBS, _ADJECTIVES = (
    frozenset(text.split()) for text in (_WH_TEXT, _CONJUNCTIONS_TEXT, _AUXILIARIES_TEXT, _VERBS_TEXT, _ADJECTIVES_TEXT)
)
_ADJECTIVE = re.compile(r"\w{2,}(?:ous|ful|ive|ical|able|ible|less|ish)$")


def word_classes(text: str) -> Counter[WordClass]:
    """Count a text's words by class; words of none are left out."""
    classes = (_closed_class(word) for word in words(text))
    counts: Counter[WordClass] = Counter(found for found in classes if found is not None)
    for word in content_words(text):
        plain = _plain(word)
        if _closed_class(word) is None and not plain.isnumeric():
            if _is_verb(word, plain):
                counts["verb"] += 1
            elif not (plain.endswith("ly") or plain in _ADJECTIVES or _ADJECTIVE.match(plain)):
                counts["noun"] += 1
    return counts


def mean_word_classes(texts: Iterable[str]) -> dict[WordClass, float]:
    """Words of each class in a text, on average; empty without texts."""
    counted = [word_classes(text) for text in texts]
    return {name: sum(counts[name] for counts in counted) / len(counted) for name in CLASSES} if counted else {}


def _closed_class(word: str) -> WordClass | None:
    plain = _plain(word)
    if plain in _WH:
        return "wh"
    if plain in _CONJUNCTIONS:
        return "conjunction"
    return "verb" if plain in _AUXILIARIES else None


def _is_verb(word: str, plain: str) -> bool:
    if not word[0].islower():
        return False
    return plain in _VERBS or (len(plain) > 4 and plain.endswith(("ed", "ing")))


def _plain(word: str) -> str:
    return _ENDING.sub("", folded(word))
