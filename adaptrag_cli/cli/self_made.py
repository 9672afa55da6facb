"""Questions that the answer model writes from an index, where the user gives none; kept, so that a run can go on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.cli.boundary import say
from adaptrag_cli.errors import ConfigError

if TYPE_CHECKING:
    from adaptrag_cli.config import Settings
    from adaptrag_cli.evaluation.questions import QuestionSet

_WRITTEN = "written.questions.jsonl"


@dataclass(frozen=True, kw_only=True)
class SelfMade:
    """The questions that are wanted."""

    out: Path
    limit: int
    seed: int
    resume: bool
    is_begun: bool
    """Whether the folder holds what was made of them already: then no more are written."""
    use_them: str
    """A command that takes the questions that are there."""
    require_enough: Callable[[int], None]


def with_index(settings: Settings) -> tuple[Settings, str]:
    """Name the index that will be asked, and tell its encoder."""
    from adaptrag_cli.index.home import choose_index, open_index
    from adaptrag_cli.session.plan import index_dir_of

    index_dir = index_dir_of(settings)
    name = choose_index(index_dir, settings.index.name)
    return replace(settings, index=replace(settings.index, name=name)), open_index(index_dir, name).encoder.name


def self_made_questions(settings: Settings, wanted: SelfMade) -> QuestionSet:
    """Questions that the model writes into the folder; with --resume it goes on with those that are there.

    Raises:
        ConfigError: the folder holds questions, and is not to be gone on with.
    """
    from adaptrag_cli.evaluation.formats.reading import load_questions
    from adaptrag_cli.evaluation.resume import only_writer

    path = wanted.out / _WRITTEN
    if path.exists() and not wanted.resume:
        raise ConfigError(
            f"{wanted.out} holds questions that were written already",
            f"go on with --resume, give another --out, or use them: {wanted.use_them.format(path)}",
        )
    if not wanted.is_begun:
        with only_writer(wanted.out):
            _write(settings, path, wanted)
    return load_questions(path)


def _write(settings: Settings, path: Path, wanted: SelfMade) -> None:
    from adaptrag_cli.cli.interrupt import cancelling_on_interrupt
    from adaptrag_cli.evaluation.question_writing import QuestionLog, Written, write_questions
    from adaptrag_cli.session.indexes import open_index_for
    from adaptrag_cli.session.plan import model_load_of, models_dir_of
    from adaptrag_cli.session.session import load_model

    wanted.require_enough(wanted.limit)
    retriever = open_index_for(settings, models_dir_of(settings)).retriever
    with closing(QuestionLog(path)) as log:
        if len(log.written) >= wanted.limit:
            return

        def keep(question: Written) -> None:
            log.append(question)
            if len(log.written) % 10 == 0:
                say(f"{len(log.written)} of {wanted.limit} questions written")

        model = load_model(model_load_of(settings), say)
        say("no DATA: the model writes questions from chunks of the index (weaker evidence than questions of people)")
        try:
            with cancelling_on_interrupt(model.cancel) as interruption:
                write_questions(
                    retriever,
                    model,
                    limit=wanted.limit,
                    seed=wanted.seed,
                    earlier=tuple(log.written),
                    on_written=keep,
                    should_stop=lambda: interruption.is_requested,
                )
        finally:
            model.close()
        wanted.require_enough(len(log.written))
