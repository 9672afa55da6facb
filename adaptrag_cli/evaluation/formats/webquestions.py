"""WebQuestions (`webquestions.examples.test.json`): answers stand in a Lisp list of descriptions; no ids, no corpus.

Fields: `data/webquestions/` of percyliang/sempre. A question's id is its number in the file.
"""

from __future__ import annotations

import re

from adaptrag_cli.evaluation.formats.base import Collected, Format, Malformed, Parsed, distinct, text_of
from adaptrag_cli.evaluation.questions import Question

_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^\s()"]+))\)')
_LIST = re.compile(rf"\(list(?:\s*{_DESCRIPTION.pattern})*\s*\)")


def _sniff(parsed: Parsed) -> bool:
    first = parsed.first
    return {"utterance", "targetValue"} <= first.keys()


def _read(parsed: Parsed, into: Collected) -> None:
    for number, record in enumerate(parsed.records, start=1):
        into.questions.append(
            Question(
                id=str(number),
                text=text_of(record, "utterance"),
                answers=_descriptions(text_of(record, "targetValue")),
            )
        )


def _descriptions(value: str) -> tuple[str, ...]:
    """Read `(list (description "Swiss franc") (description Euro))`."""
    if not _LIST.fullmatch(value.strip()):
        raise Malformed("'targetValue' is not a list of descriptions")
    return distinct(re.sub(r"\\(.)", r"\1", quoted) or bare for quoted, bare in _DESCRIPTION.findall(value))


FORMAT = Format(name="webquestions", sniff=_sniff, read=_read)
