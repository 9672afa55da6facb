"""Compare short answers by their words, as all five papers do (METHODS 7.1)."""

from __future__ import annotations

import re
import string
from collections import Counter

_PUNCTUATION = str.maketrans("", "", string.punctuation)
SO_THE_ANSWER_IS = " So the answer is"
FINAL_ANSWER_IS = "So the final answer is:"
ANSWER_MARKER = "Answer:"
_ANSWER_IS = re.compile(r"\bthe answer is\b:?", flags=re.IGNORECASE)
_YES_OR_NO = re.compile(r"(yes|no)(?:\s*[,;:–—]|\s+-|-\B|\.(?!\s*\d))", flags=re.IGNORECASE)
_FINAL_ANSWER = re.compile(r"^\s*so the final answer is\b[ \t]*:?[ \t]*(.*)", flags=re.IGNORECASE | re.MULTILINE)
_ANSWER_MARKED = re.compile(r"\banswer:", flags=re.IGNORECASE)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise_answer(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles, single spaces: in this order, so that "the-end" is "theend".

    Accents and typographic dashes stay. An answer may become empty ("A", "...").
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def same_answer(first: str, second: str) -> bool:
    """Whether two answers are equal when normalised; an empty one equals nothing."""
    key = normalise_answer(first)
    return bool(key) and key == normalise_answer(second)


def concluded_answer(reasoning: str, completion: str = "") -> str:
    """What a chain of thought gives as its answer, freed of a closing full stop (METHODS 4.7 and 13.8).

    It is what follows the first "the answer is" on its line. Where nothing does, it is the completion: what was written
    after the chain of thought had been ended by `SO_THE_ANSWER_IS`. Of "Yes, they could" only the yes stays, so that a
    reader of yes or no finds it (4.7 reads the first letters of StrategyQA's answers); "No. 10" is no such answer.
    """
    found = _ANSWER_IS.search(reasoning)
    text = (reasoning[found.end() :].strip() if found else "") or completion.strip()
    first_line = text.split("\n", 1)[0].strip()
    closed = _YES_OR_NO.match(first_line)
    return closed[1] if closed else first_line.removesuffix(".").strip()


def concludes(reasoning: str) -> bool:
    """Whether a chain of thought has come to its answer; one that breaks off after "the answer is" has not."""
    return bool(concluded_answer(reasoning))


def before_answer(rationale: str) -> str:
    """What stands before the first "Answer:"; all of it where there is none."""
    found = _ANSWER_MARKED.search(rationale)
    return rationale[: found.start()] if found else rationale


def marked_answer(rationale: str, completion: str = "") -> str:
    """What stands behind the first "Answer:" on its line, freed of a closing full stop (METHODS 8).

    Where nothing does, it is the completion: what was written after the rationale had been ended by `ANSWER_MARKER`.
    """
    found = _ANSWER_MARKED.search(rationale)
    text = rationale[found.end() :].strip() if found else ""
    first_line = (text or completion.strip()).split("\n", 1)[0].strip()
    return first_line.removesuffix(".").strip()


def tagged_answer(text: str) -> str:
    """What stands between the first `<answer>` and `</answer>`; without such a pair the first line, freed of tags.

    METHODS 3: models that forget the closing tag still give their answer.
    """
    found = re.search(r"<answer>(.*?)</answer>", text, flags=re.DOTALL | re.IGNORECASE)
    if found:
        return found.group(1).strip()
    bare = re.sub(r"</?answer>", "", text, flags=re.IGNORECASE).strip()
    return bare.split("\n", 1)[0].strip()


def final_answer(line: str, completion: str = "") -> str:
    """What a narrative of steps gives as its answer, freed of a closing full stop (METHODS 9.1).

    It is what follows `FINAL_ANSWER_IS` where a line begins with it. Where nothing does, it is the completion: what was
    written after the steps had been ended by it.
    """
    found = _FINAL_ANSWER.search(line)
    told = found[1].strip().removesuffix(".").strip() if found else ""
    return told or completion.strip().split("\n", 1)[0].strip().removesuffix(".").strip()


def token_f1(first: str, second: str) -> float:
    """F1 of the words that two answers share, from 0 to 1; symmetric."""
    a, b = normalise_answer(first).split(), normalise_answer(second).split()
    common = sum((Counter(a) & Counter(b)).values())
    return 2 * common / (len(a) + len(b)) if common else 0.0


def contains(text: str, answer: str) -> bool:
    """Whether the normalised text holds the normalised answer anywhere; an empty answer is held by nothing.

    A substring, as in the papers' code: "no" is held by "know".
    """
    key = normalise_answer(answer)
    return bool(key) and key in normalise_answer(text)


def contains_words(text: str, answer: str) -> bool:
    """Whether the normalised answer stands in the normalised text as whole words in a row."""
    key = normalise_answer(answer)
    return bool(key) and f" {key} " in f" {normalise_answer(text)} "
