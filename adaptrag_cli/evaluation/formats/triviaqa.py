"""TriviaQA (`unfiltered-web-dev.json`, `wikipedia-dev.json` and their kin): questions with many names of the answer.

Fields: `samples/triviaqa_sample.json` and `utils/dataset_utils.py` of mandarjoshi90/triviaqa. Answers are
`Answer.Aliases`, as in the official evaluation; `Value` alone where there are none. The evidence documents are files of
their own, so there is no corpus. Of a verified file only the verified questions are asked.
"""

from __future__ import annotations

from adaptrag_cli.evaluation.formats.base import Collected, Format, Parsed, distinct, text_of, texts_of
from adaptrag_cli.evaluation.questions import Question
from adaptrag_cli.events import Scalar


def _sniff(parsed: Parsed) -> bool:
    data = parsed.document.get("Data") if isinstance(parsed.document, dict) else None
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and "QuestionId" in data[0]


def _read(parsed: Parsed, into: Collected) -> None:
    verified = bool(parsed.document.get("VerifiedEval"))
    for record in parsed.document["Data"]:
        if verified and not record["QuestionPartOfVerifiedEval"]:
            into.skip("not verified")
            continue
        answer = record.get("Answer") or {}
        names = distinct(texts_of(answer, "Aliases")) or (text_of(answer, "Value"),) if answer else ()
        kind: dict[str, Scalar] = {"type": answer["Type"]} if isinstance(answer.get("Type"), str) else {}
        into.questions.append(
            Question(id=str(record["QuestionId"]), text=text_of(record, "Question"), answers=names, meta=kind)
        )


FORMAT = Format(name="triviaqa", sniff=_sniff, read=_read)
