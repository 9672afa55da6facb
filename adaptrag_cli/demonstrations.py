"""Worked examples of answering step by step, written for this project (METHODS 13.13).

They stand before every question, so their part of a prompt is evaluated once and then comes from the KV cache. Chains
of thought have two to three short sentences each, as the methods that look up between sentences need them; narratives
have one or two steps each (METHODS 9.1), of which half know their answer and half look it up. Comparisons, chains of
two facts and yes or no questions, as the question sets ask them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """A question, and the chain of thought that answers it."""

    question: str
    reasoning: str


@dataclass(frozen=True, kw_only=True)
class FollowUp:
    """A step of a worked narrative."""

    question: str
    answer: str
    passage: str
    """What a search finds for it, title first."""
    is_looked_up: bool = False


@dataclass(frozen=True, kw_only=True)
class FollowUps:
    """A question, the steps that answer it, and the answer."""

    question: str
    steps: tuple[FollowUp, ...]
    answer: str


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


FOLLOW_UPS: tuple[FollowUps, ...] = (
    FollowUps(
        question="Who designed the opera house in the capital of Norway?",
        steps=(
            FollowUp(
                question="What is the capital of Norway?",
                answer="Oslo",
                passage="Norway: Norway is a country in northern Europe. Its capital and largest city is Oslo.",
            ),
            FollowUp(
                question="Who designed the opera house in Oslo?",
                answer="Snøhetta",
                passage="Oslo Opera House: The house was designed by the office Snøhetta and was opened in 2008.",
                is_looked_up=True,
            ),
        ),
        answer="Snøhetta",
    ),
    FollowUps(
        question="Which language is spoken in the country where the painter Anna Ancher was born?",
        steps=(
            FollowUp(
                question="In which country was the painter Anna Ancher born?",
                answer="Denmark",
                passage="Anna Ancher: Anna Ancher (1859-1935) was a painter, born at Skagen in Denmark.",
                is_looked_up=True,
            ),
            FollowUp(
                question="Which language is spoken in Denmark?",
                answer="Danish",
                passage="Denmark: The language of nearly all people in Denmark is Danish.",
            ),
        ),
        answer="Danish",
    ),
    FollowUps(
        question="Who was born first, Galileo Galilei or Wolfgang Amadeus Mozart?",
        steps=(
            FollowUp(
                question="When was Galileo Galilei born?",
                answer="1564",
                passage="Galileo Galilei: Galileo Galilei (1564-1642) was an Italian astronomer, born in Pisa.",
            ),
            FollowUp(
                question="When was Wolfgang Amadeus Mozart born?",
                answer="1756",
                passage="Wolfgang Amadeus Mozart: Mozart (1756-1791) was a composer, born in Salzburg.",
            ),
        ),
        answer="Galileo Galilei",
    ),
    FollowUps(
        question="Did the composers Niels Gade and Franz Berwald come from the same country?",
        steps=(
            FollowUp(
                question="Which country did the composer Niels Gade come from?",
                answer="Denmark",
                passage="Niels Gade: Niels Gade (1817-1890) was a Danish composer, born in Copenhagen.",
                is_looked_up=True,
            ),
            FollowUp(
                question="Which country did the composer Franz Berwald come from?",
                answer="Sweden",
                passage="Franz Berwald: Franz Berwald (1796-1868) was a Swedish composer, born in Stockholm.",
                is_looked_up=True,
            ),
        ),
        answer="no",
    ),
    FollowUps(
        question="What is the chemical symbol of gold?",
        steps=(
            FollowUp(
                question="What is the chemical symbol of gold?",
                answer="Au",
                passage="Gold: Gold is a chemical element with the symbol Au and the atomic number 79.",
            ),
        ),
        answer="Au",
    ),
    FollowUps(
        question="In which year was the funicular up the mountain Fløyen in Bergen opened?",
        steps=(
            FollowUp(
                question="In which year was the funicular up the mountain Fløyen in Bergen opened?",
                answer="1918",
                passage="Fløibanen: Fløibanen is a funicular in Bergen that runs up Fløyen. It was opened in 1918.",
                is_looked_up=True,
            ),
        ),
        answer="1918",
    ),
)
"""Narratives whose steps are half known and half looked up; most people know the former and not the latter."""

REFINED_QUERIES: tuple[Demonstration, ...] = (
    Demonstration(
        question="Which language is spoken in the country where the painter Anna Ancher was born?",
        reasoning="Context:\n"
        "[1] Anna Ancher: Anna Ancher (1859-1935) was a painter, born at Skagen in Denmark.\n"
        "Thought: Anna Ancher was born in Denmark. The language that is spoken in Denmark is still missing.\n"
        "Query: language spoken in Denmark\n"
        "Context:\n"
        "[1] Denmark: The language of nearly all people in Denmark is Danish.\n"
        "Thought: Danish is spoken in Denmark. Nothing is missing.\n"
        "So the final answer is: Danish",
    ),
    Demonstration(
        question="In which year was the funicular up the mountain Fløyen in Bergen opened?",
        reasoning="Context:\n"
        "[1] Fløibanen: Fløibanen is a funicular in Bergen that runs up Fløyen. It was opened in 1918.\n"
        "Thought: The funicular was opened in 1918. Nothing is missing.\n"
        "So the final answer is: 1918",
    ),
    Demonstration(
        question="Did the composers Niels Gade and Franz Berwald come from the same country?",
        reasoning="Context:\n"
        "[1] Niels Gade: Niels Gade (1817-1890) was a Danish composer, born in Copenhagen.\n"
        "Thought: Niels Gade came from Denmark. The country of Franz Berwald is still missing.\n"
        "Query: Franz Berwald composer country\n"
        "Context:\n"
        "[1] Franz Berwald: Franz Berwald (1796-1868) was a Swedish composer, born in Stockholm.\n"
        "Thought: Franz Berwald came from Sweden. Nothing is missing.\n"
        "So the final answer is: no",
    ),
)
"""Passages read, what they tell, and what is searched for next (Auto-RAG)."""

SEARCHES: tuple[Demonstration, ...] = (
    Demonstration(
        question="Who designed the opera house in the capital of Norway?",
        reasoning="The capital of Norway is Oslo. I do not know who designed its opera house. "
        "<search>architect of the Oslo Opera House</search>\n"
        "<result>The Oslo Opera House was designed by the office Snøhetta.</result>\n"
        "So the answer is Snøhetta.",
    ),
    Demonstration(
        question="What is the chemical symbol of gold?",
        reasoning="The chemical symbol of gold comes from its Latin name, aurum: it is Au. So the answer is Au.",
    ),
    Demonstration(
        question="Did the composers Niels Gade and Franz Berwald come from the same country?",
        reasoning="I do not know where they came from. <search>Niels Gade composer country</search>\n"
        "<result>Niels Gade was a Danish composer, born in Copenhagen.</result>\n"
        "Niels Gade came from Denmark. <search>Franz Berwald composer country</search>\n"
        "<result>Franz Berwald was a Swedish composer, born in Stockholm.</result>\n"
        "Denmark and Sweden are not the same country. So the answer is no.",
    ),
)
"""Chains of thought that search where they do not know, and read what was found in few words (Search-o1)."""
