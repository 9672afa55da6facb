"""Every prompt, with its source. Each is one user turn; the model's own chat template wraps it.

Where the wording is ours or DTR's the question stands first, so that the KV cache of the draft serves the later calls.
Examples stand before the question: they are the same for every question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adaptrag_cli.answers import ANSWER_MARKER, SO_THE_ANSWER_IS
from adaptrag_cli.demonstrations import REASONING, REFINED_QUERIES, SEARCHES, Demonstration

RATIONALE_MARKER = "Rationale:"


@dataclass(frozen=True, kw_only=True)
class Passage:
    """What a prompt shows of a chunk."""

    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.title}\n{self.text}" if self.title else self.text


def direct(query: str) -> str:
    """Ask for a draft without documents (DTR, Fig. 11)."""
    return f"{query}\nAnswer the question using a single word or phrase."


def pseudo_context(query: str) -> str:
    """Ask for an imagined passage (DTR, Fig. 13)."""
    return f"{query}\nWrite a passage to answer this question."


def with_passages(query: str, passages: Sequence[Passage]) -> str:
    """Ask for a short answer from passages, best first (DTR, Fig. 12; the title line as in the released code)."""
    context = "\n".join(str(passage) for passage in passages)
    return f"{query}\n{context}\nAnswer the question based on the above context using a single word or phrase."


def cited(query: str, passages: Sequence[Passage]) -> str:
    """Ask for one to three sentences from passages (ours: the papers only ask for a phrase)."""
    context = "\n".join(str(passage) for passage in passages)
    return (
        f"{query}\n{context}\n"
        "Answer the question based on the above context in one to three complete sentences. "
        "Use the names and numbers exactly as the context gives them."
    )


def pairs_direct(query: str) -> str:
    """Ask for a draft between tags (PAIRS, Fig. 9 b; its line breaks are ours: the paper's text has lost them)."""
    return (
        "Your task is to answer the given question. Please directly provide the concise answer inside <answer> and "
        f"</answer> without detailed description, e.g., <answer>Beijing</answer>.\nQuestion: {query}"
    )


def pairs_passage(query: str) -> str:
    """Ask for an imagined passage (PAIRS, Fig. 9 a)."""
    return f"Your task is to write a detailed passage to answer the given question.\nQuestion: {query}"


def pairs_with_context(query: str, passages: Sequence[Passage]) -> str:
    """Ask for an answer between tags from passages, best first, or from the imagined one (PAIRS, Fig. 9 c)."""
    context = "\n".join(str(passage) for passage in passages)
    return (
        "Your task is to answer the given question based on the Context. Please directly provide the answer inside "
        "<answer> and </answer> without detailed description, e.g., <answer>Beijing</answer>.\n"
        f"Context: {context}\nQuestion: {query}"
    )


def hyde(query: str) -> str:
    """Ask for an imagined passage (HyDE, its prompt for web search)."""
    return f"Please write a passage to answer the question.\nQuestion: {query}\nPassage:"


def query2doc(query: str) -> str:
    """Ask for an imagined passage after four examples (Query2doc; the examples are ours)."""
    examples = "\n\n".join(f"Query: {asked}\nPassage: {passage}" for asked, passage in _QUERY2DOC_EXAMPLES)
    return f"Write a passage that answers the given query:\n\n{examples}\n\nQuery: {query}\nPassage:"


def chain_of_thought(query: str) -> str:
    """Ask for an answer with its rationale (DTR, Fig. 14)."""
    return f"Answer the following question:\n{query}\nGive the rationale before answering"


def judge(query: str) -> str:
    """Ask whether documents are needed (DTR, Fig. 15)."""
    return (
        f"{query}\nDetermine whether external information is needed to answer the question accurately. "
        'Respond with "Yes" if additional information is required, or "No" if the question can be answered without it.'
    )


def time_aware_judge(query: str, today: str) -> str:
    """Ask whether documents are needed, on a date and after four examples (TAARE; the wording is ours)."""
    return (
        f"Today is {today}. Does answering the question below need outside sources (web search, an encyclopedia or a "
        f"database)? Reply with only [Yes] or [No].\n\n{_questions(_TIME_AWARE_EXAMPLES)}\n\n{_question(query)}"
    )


def can_answer(query: str) -> str:
    """Ask for 1 or 0, after four examples (Probing-RAG's LLM-based baseline; the wording is ours)."""
    return (
        "Reply 1 if you can answer the question from memory, 0 if you cannot. Reply with the digit only.\n\n"
        f"{_questions(_CAN_ANSWER_EXAMPLES)}\n\n{_question(query)}"
    )


def relevance(text: str, passage: str) -> str:
    """Ask whether a passage is relevant to a text (ours). The passage comes first: it is read against several texts."""
    return f"{passage}\n\nIs the passage above relevant to the text below?\n\n{text}\n\nAnswer with Yes or No only."


def better_answer(query: str, golds: Sequence[str], first: str, second: str) -> str:
    """Ask which of two answers is better, given the right ones (ETC section 5.2; the wording is ours)."""
    return (
        f"Question: {query}\nRight answer: {' or '.join(golds)}\n\n"
        f"Answer 1: {first or '(none)'}\nAnswer 2: {second or '(none)'}\n\n"
        "Which answer is more accurate and complete, measured by the right answer? "
        "Reply 1 or 2, or 0 if they are equally good or equally bad. Reply with the digit only."
    )


def reasoning(query: str, passages: Sequence[Passage], examples: int) -> str:
    """Ask for a chain of thought after worked examples, with passages where there are any (METHODS 4.7, 12b, 13b).

    The passages stand behind the examples, so that the KV cache serves all prompts of a question. The model goes on
    where its own turn already begins with what it has written. No "Answer:" ends the prompt: after one, small
    models rather answer than reason.
    """
    shown = "\n\n".join(f"Question: {d.question}\nAnswer: {d.reasoning}" for d in REASONING[:examples])
    numbered = "\n".join(f"[{i}] {str(passage).replace(chr(10), ' ')}" for i, passage in enumerate(passages, start=1))
    context = f"Context:\n{numbered}\n{_USE_THE_PASSAGES}\n\n" if passages else ""
    asked = _STEP_BY_STEP if shown else _WITHOUT_EXAMPLES
    return "\n\n".join(filter(None, (asked, shown, f"{context}Question: {query}")))


def follow_ups(
    query: str, examples: Sequence[str] = (), *, from_memory: bool = True, from_documents: bool = True
) -> str:
    """Ask for a narrative of steps, after worked ones where there are any (DeepRAG, A.2; the wording is ours).

    Each step may be answered from both sources, or from the one that is left. The model's turn is the narrative.
    """
    how = "as the examples do" if examples else "step by step"
    ways = {
        (True, True): f"{_ANSWER_WHAT_YOU_KNOW} {_SEARCH_FOR_THE_REST}",
        (True, False): "Answer each from what you know.",
        (False, True): _SEARCH_FOR_ALL,
    }[from_memory, from_documents]
    asked = f"Answer the question below {how}. {_ONE_AT_A_TIME} {ways} {_END_THE_STEPS}"
    return "\n\n".join([asked, *examples, f"Question: {query}"])


def simple_questions(query: str, examples: Sequence[str]) -> str:
    """Ask to take a question apart into a list of simple ones, after worked lists (DeepRAG's teacher; wording is ours).

    The model's turn is the list, each question with its answer behind it.
    """
    return "\n\n".join([_TAKE_APART, *examples, f"Question: {query}"])


def rationale(query: str, passages: Sequence[Passage], examples: int) -> str:
    """Ask for a rationale and an answer after worked examples, with passages where there are any (Probing-RAG, Tab. 7).

    The form is the paper's, the wording and the examples are ours. The passages stand behind the examples, so that the
    KV cache serves all prompts. The model's own turn begins with `RATIONALE_MARKER`.
    """
    shown = "\n\n".join(_with_rationale(demonstration) for demonstration in REASONING[:examples])
    numbered = "\n".join(f"[{i}] {str(passage).replace(chr(10), ' ')}" for i, passage in enumerate(passages, start=1))
    context = f"Passages:\n{numbered}\n\n" if passages else ""
    return f"{_RATIONALE_FIRST}\n\n{shown}\n\n{context}Question: {query}"


def _with_rationale(demonstration: Demonstration) -> str:
    rationale, _, conclusion = demonstration.reasoning.partition(SO_THE_ANSWER_IS)
    answer = conclusion.strip().removesuffix(".")
    return f"Question: {demonstration.question}\n{RATIONALE_MARKER} {rationale}\n{ANSWER_MARKER} {answer}"


def refined_queries(query: str, examples: int) -> str:
    """Ask for thoughts on passages, and for the next query or the answer (Auto-RAG; the wording is ours)."""
    return _after_examples(_THINK_AND_SEARCH, REFINED_QUERIES[:examples], query)


def searches(query: str, examples: int) -> str:
    """Ask for a chain of thought that searches between markers (Search-o1; the wording and the markers are ours)."""
    return _after_examples(_SEARCH_IN_THOUGHT, SEARCHES[:examples], query)


def condensed(query: str, written: str, searched: str, passages: Sequence[Passage]) -> str:
    """Ask what passages tell of a search, in the light of the thoughts before it (Search-o1; the wording is ours)."""
    numbered = "\n".join(f"[{i}] {' '.join(str(passage).split())}" for i, passage in enumerate(passages, start=1))
    return (
        f"Passages:\n{numbered or '(nothing was found)'}\n\nQuestion: {query}\nThoughts so far: {written.strip()}\n"
        f"Searched for: {searched}\n\n"
        "In one short sentence, write what the passages tell about what was searched for, as far as it helps to go on. "
        f'If they tell nothing about it, write "{NOTHING_HELPS}".'
    )


def _after_examples(asked: str, examples: Sequence[Demonstration], query: str) -> str:
    shown = (f"Question: {example.question}\n{example.reasoning}" for example in examples)
    return "\n\n".join([asked, *shown, f"Question: {query}"])


def question_about(query: str, written: str, term: str) -> str:
    """Ask for a question whose answer is an unsure part of what was written (FLARE 3.2.2; wording is ours)."""
    return (
        f"Question: {query}\nAnswer so far: {written}\n\n"
        f'Ask one short question to which the answer is "{term}". Write only the question.'
    )


def _question(query: str, reply: str = "") -> str:
    return f"Question: {query}\nAnswer: {reply}".rstrip()


def _questions(examples: Sequence[tuple[str, str]]) -> str:
    return "\n\n".join(_question(query, reply) for query, reply in examples)


_STEP_BY_STEP = (
    "Answer the last question as the examples do: think step by step in short sentences, and end with "
    '"So the answer is ...".'
)
_WITHOUT_EXAMPLES = 'Answer the question: think step by step in short sentences, and end with "So the answer is ...".'
NOTHING_HELPS = "Nothing helpful was found."
_THINK_AND_SEARCH = (
    'Answer the question below from passages that are looked up for you. After "Thought:", say in one or two short '
    'sentences what they tell and what is still missing. If something is missing, write "Query:" and what to search '
    'for next; else write "So the final answer is:" and the answer in a few words.'
)
_SEARCH_IN_THOUGHT = (
    "Answer the question below: think step by step in short sentences. Where you do not know something, search for it "
    "by writing <search>what to search for</search>; what was found then stands between <result> and </result>. End "
    'with "So the answer is ...".'
)
_TAKE_APART = (
    "Take the question at the end apart into simple questions, as the examples do. Each is about one thing, and names "
    "it. Each is answered before the next one is asked."
)
_ONE_AT_A_TIME = (
    'Break it into simple questions and settle them one at a time: write each after "Follow up:", and its answer after '
    '"Intermediate answer:".'
)
_ANSWER_WHAT_YOU_KNOW = "Where you know the answer, give it at once."
_SEARCH_FOR_THE_REST = (
    'Where you do not, first write "Let\'s search the question in Wikipedia.", and then answer from the passages that '
    "are shown to you."
)
_SEARCH_FOR_ALL = (
    'Before each answer write "Let\'s search the question in Wikipedia.", and then answer from the passages that are '
    "shown to you."
)
_END_THE_STEPS = 'When nothing is left to ask, write "So the final answer is:" and the answer in a few words.'
_RATIONALE_FIRST = (
    "Answer the last question as the examples do: one line with a rationale of a few short sentences, then one line "
    "with the answer in a few words. Use the passages if there are any and they help."
)
_USE_THE_PASSAGES = "Use the passages if they help and continue the answer in the same form."
_QUERY2DOC_EXAMPLES = (
    (
        "why do leaves turn yellow in autumn",
        "As days grow shorter, trees stop making chlorophyll, the green pigment that captures light. It breaks down, "
        "and yellow carotenoids, which were in the leaf all summer, become visible.",
    ),
    (
        "what does a ship's keel do",
        "The keel is the long beam along the bottom of a hull. It carries the frames of the ship, and on a sailing "
        "boat its weight and depth keep the boat upright and stop it from drifting sideways.",
    ),
    (
        "how is parchment made",
        "Parchment is made from the skin of sheep, goats or calves. The skin is soaked in lime, scraped free of hair, "
        "stretched on a frame and dried under tension, which gives a smooth sheet to write on.",
    ),
    (
        "boiling point of water on high mountains",
        "Water boils when its vapour pressure equals the pressure of the air. Air is thinner on high mountains, so "
        "water boils at a lower temperature there: at about 90 degrees Celsius at a height of 3,000 metres.",
    ),
)
_TIME_AWARE_EXAMPLES = (
    ("How many sides does a hexagon have?", "[No]"),
    ("Who is the mayor of the largest city of Norway now?", "[Yes]"),
    ("Which gas do plants take in for photosynthesis?", "[No]"),
    ("In which year was the village library of Kleinsass opened?", "[Yes]"),
)
"""Two facts that everybody knows; one that changes with time; one that hardly anybody wrote about."""
_CAN_ANSWER_EXAMPLES = (
    ("What is the chemical symbol of gold?", "1"),
    ("Who painted the altar of the chapel in Kleinsass?", "0"),
    ("On which continent is Kenya?", "1"),
    ("How many visitors did the Skarvik boat museum have last May?", "0"),
)


def write_question(passage: Passage) -> str:
    """Ask for a question and its answer, to calibrate on a corpus that has none (ours)."""
    return (
        f"{passage}\n\n"
        "Write one question that this tells the answer to. The answer must be a name, a number or a short phrase, "
        "copied word for word. Somebody who has not read this must understand the question, so name what it is about. "
        "Write exactly two lines:\nQuestion: ...\nAnswer: ..."
    )
