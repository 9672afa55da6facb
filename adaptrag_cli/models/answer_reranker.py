"""A reranker without a model of its own: the answer model is asked whether a passage is relevant to a text."""

from __future__ import annotations

from collections.abc import Sequence

from adaptrag_cli import prompts
from adaptrag_cli.models.base import LabelScores, LanguageModel, Prompt, RerankScores

_LABELS = ("Yes", "No")


class AnswerModelReranker:
    """A `Reranker` that scores a pair by ln P("Yes") - ln P("No"), so that reranking needs no further model."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.info.name

    def score(self, pairs: Sequence[tuple[str, str]]) -> RerankScores:
        """Log-odds of "Yes" for each pair of query and text, one call each.

        What a text holds beyond the model's window is cut off, as a cross-encoder does.

        Raises:
            QueryTooLong: a query alone does not fit the context.
            RunCancelled: the model was told to stop.
        """
        readings = [self._read(query, text) for query, text in pairs]
        return RerankScores(
            scores=tuple(yes - no for yes, no in (reading.logprobs for reading in readings)),
            prompt_tokens=tuple(reading.prompt_tokens for reading in readings),
            reused_tokens=tuple(reading.reused_tokens for reading in readings),
        )

    def _read(self, query: str, text: str) -> LabelScores:
        return self._model.label_logprobs(self._fitting_prompt(query, text), _LABELS)

    def _fitting_prompt(self, query: str, text: str) -> Prompt:
        room = self._model.info.context_length - 1
        while True:
            prompt = self._model.build_prompt(prompts.relevance(query, text))
            if len(prompt) <= room or not text:
                return prompt
            text = text[: len(text) * room // len(prompt)]
