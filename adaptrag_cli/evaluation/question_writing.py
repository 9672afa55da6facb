"""Questions for a corpus that has none: the answer model writes them from sampled chunks of the index.

What it writes is kept only where the answer is a short phrase that stands in the chunk and not in the question, and the
question does not speak of "the text". The chunk's document is gold. This is weaker evidence than questions of people:
such questions share words with their chunk, so they are easier to look up, and they ask for what chunks say, not for
what a reader wants to know.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from adaptrag_cli import prompts
from adaptrag_cli.answers import contains_words, normalise_answer
from adaptrag_cli.calibration import question_digest
from adaptrag_cli.documents.base import Chunk
from adaptrag_cli.errors import QueryTooLong, RunCancelled
from adaptrag_cli.json_lines import RecordLog, read_records
from adaptrag_cli.models.base import LanguageModel
from adaptrag_cli.retrieval import Retriever

CHUNKS_PER_QUESTION = 6
"""Chunks that are read for each question wanted, before it is given up."""
_MAX_TOKENS = 80
_MIN_CHUNK_WORDS = 20
_MIN_QUESTION_WORDS = 4
_MAX_ANSWER_WORDS = 6
_POINTS_AT_TEXT = re.compile(
    r"\b(?:text|passage|paragraph|document|excerpt|article|context|author|above|following)\b", re.IGNORECASE
)
_LABEL = re.compile(r"^[\s*#>-]*(question|answer)\s*\d*[\s*]*:[\s*]*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Written:
    """A question that the model wrote."""

    question: str
    answer: str
    document: str
    chunk: str
    """Id of the chunk it was written from."""


def write_questions(
    retriever: Retriever,
    model: LanguageModel,
    *,
    limit: int,
    seed: int,
    earlier: Sequence[Written] = (),
    on_written: Callable[[Written], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[Written, ...]:
    """Write up to `limit` questions from chunks drawn at random; fewer where too few chunks give one.

    Args:
        earlier: what an equal call had written when it was stopped; its chunks are not read again.
        on_written: is told each new question.

    Raises:
        RunCancelled: the person stopped it.
    """
    written = {question_digest(one.question): one for one in earlier}
    store = retriever.store
    rows = list(range(store.chunk_count))
    random.Random(f"{seed}:{store.fingerprint}").shuffle(rows)
    chunks = [store.chunk(row) for row in rows[: limit * CHUNKS_PER_QUESTION]]
    for chunk in _not_read(chunks, earlier):
        if len(written) >= limit:
            break
        if should_stop():
            raise RunCancelled("stopped while questions were written; go on with the same command and --resume")
        is_gone = chunk.source in retriever.deleted or chunk.document in retriever.deleted
        if is_gone or len(chunk.text.split()) < _MIN_CHUNK_WORDS:
            continue
        found = kept_question(_ask(model, chunk), chunk)
        if found is not None and question_digest(found.question) not in written:
            written[question_digest(found.question)] = found
            on_written(found)
    return tuple(written.values())


def _not_read(chunks: Sequence[Chunk], earlier: Sequence[Written]) -> Sequence[Chunk]:
    """What follows the chunk of the last question that is there."""
    ids = [chunk.chunk_id for chunk in chunks]
    return chunks[ids.index(earlier[-1].chunk) + 1 :] if earlier and earlier[-1].chunk in ids else chunks


def kept_question(reply: str, chunk: Chunk) -> Written | None:
    """Read question and answer out of a reply; None where they cannot be used."""
    parts = dict(_labelled(reply))
    question, answer = parts.get("question", ""), parts.get("answer", "").strip(" .\"'*")
    words = normalise_answer(answer).split()
    is_short = 1 <= len(words) <= _MAX_ANSWER_WORDS
    is_asked = question.endswith("?") and len(question.split()) >= _MIN_QUESTION_WORDS
    if not is_short or not is_asked or _POINTS_AT_TEXT.search(question):
        return None
    if not contains_words(chunk.text, answer) or contains_words(question, answer):
        return None
    return Written(question=question, answer=answer, document=chunk.document, chunk=chunk.chunk_id)


class QuestionLog:
    """Questions as our JSON lines, so that they can be read, mended and used again; each is on disk at once."""

    def __init__(self, path: Path) -> None:
        """Go on with the file where there is one.

        Raises:
            ConfigError: a line of it is no question that was written here.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written: list[Written] = list(_read(path))
        self._log = RecordLog(path)

    def append(self, one: Written) -> None:
        """Write one line through to the disk."""
        self.written.append(one)
        self._log.append(
            {
                "id": f"written-{len(self.written)}",
                "question": one.question,
                "answers": [one.answer],
                "gold_passage_ids": [one.document],
                "meta": {"chunk": one.chunk},
            }
        )

    def close(self) -> None:
        self._log.close()


def _read(path: Path) -> Iterator[Written]:
    hint = "give the file as DATA, or another --out"
    return read_records(path, _written, what="no question that was written here", hint=hint)


def _written(line: bytes) -> Written:
    told = json.loads(line)
    return Written(
        question=told["question"],
        answer=told["answers"][0],
        document=told["gold_passage_ids"][0],
        chunk=told["meta"]["chunk"],
    )


def _ask(model: LanguageModel, chunk: Chunk) -> str:
    """One call; a chunk that is too long for the model gives nothing."""
    passage = prompts.Passage(title=chunk.title, text=chunk.text)
    try:
        tokens = model.generate(model.build_prompt(prompts.write_question(passage)), max_tokens=_MAX_TOKENS)
        while True:
            next(tokens)
    except StopIteration as done:
        text: str = done.value.text
        return text
    except QueryTooLong:
        return ""


def _labelled(reply: str) -> Iterator[tuple[str, str]]:
    """`question` and `answer`, each the rest of its line or, where that is empty, the next line; the first of each."""
    seen: set[str] = set()
    open_label = ""
    for line in reply.splitlines():
        match = _LABEL.match(line)
        label = match.group(1).lower() if match else open_label
        text = (line[match.end() :] if match else line).strip(" *")
        open_label = ""
        if label and not text:
            open_label = label
        elif label and label not in seen:
            seen.add(label)
            yield label, text
