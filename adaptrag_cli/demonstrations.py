"""Worked examples of answering step by step, written for this project (METHODS 13.13).

They stand before every question, so their part of a prompt is evaluated once and then comes from the KV cache. Two to
three short sentences each, as the methods that look up between sentences need them; comparisons, chains of two facts
and yes or no questions, as the question sets ask them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """A question, and the chain of thought that answers it."""

    question: str
    reasoning: str


REASONING: tuple[Demonstration, ...] = (
    Demonstration(
        question="Which river flows through the city where the Eiffel Tower stands?",
        reasoning="The Eiffel Tower stands in Paris. The river that flows through Paris is the Seine. "
        "So the answer is the Seine.",
    ),
    Demonstration(
        question="Could a penguin meet a polar bear in the wild?",
        reasoning="Penguins live in the southern hemisphere. Polar bears live in the Arctic. "
        "They do not meet in the wild. So the answer is no.",
    ),
    Demonstration(
        question="Who was born first, Marie Curie or Albert Einstein?",
        reasoning="Marie Curie was born in 1867. Albert Einstein was born in 1879. 1867 is before 1879. "
        "So the answer is Marie Curie.",
    ),
    Demonstration(
        question="What is the currency of the country whose capital is Bern?",
        reasoning="Bern is the capital of Switzerland. The currency of Switzerland is the Swiss franc. "
        "So the answer is the Swiss franc.",
    ),
    Demonstration(
        question="Are both Mount Fuji and Mount Etna volcanoes?",
        reasoning="Mount Fuji is a volcano in Japan. Mount Etna is a volcano in Italy. So the answer is yes.",
    ),
    Demonstration(
        question="In which country was the composer of The Four Seasons born?",
        reasoning="The Four Seasons were composed by Antonio Vivaldi. Antonio Vivaldi was born in Venice. "
        "Venice lies in Italy. So the answer is Italy.",
    ),
    Demonstration(
        question="Which is longer, the Nile or the Rhine?",
        reasoning="The Nile is about 6,650 kilometres long. The Rhine is about 1,230 kilometres long. "
        "So the answer is the Nile.",
    ),
    Demonstration(
        question="How many legs do two spiders have together?",
        reasoning="A spider has eight legs. Two spiders have twice as many, which is sixteen. So the answer is 16.",
    ),
)
