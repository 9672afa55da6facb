"""Every number in one sentence, and every key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from adaptrag_cli.terminal import printable
from adaptrag_cli.tui.screens.dialog import Dialog

NUMBERS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Draft: the answer tried without documents",
        (
            ("probability", "The share that the model gave to the token it wrote; 1 is certain."),
            ("logprob", "The natural logarithm of that probability, so 0 is certain and -2.3 is one in ten."),
            ("entropy", "How widely the model's choice of this token was spread, in nats; 0 is no doubt at all."),
            ("u, mean NLL", "The uncertainty of the draft: the mean of -logprob over its tokens, in nats."),
            (
                "1st difference",
                "How much the entropy of a word is above that of the word before, in nats: • in the chart.",
            ),
            ("2nd difference", "How sharply the entropy turns at a word, up or down, in nats: × in the chart (etc)."),
            ("RIND", "The entropy of a word times the attention that is paid to it: unsure, and leaned on (dragin)."),
            (
                "value",
                "What is held against the trigger: a smoothed difference (etc), RIND (dragin), or 1 - p (flare).",
            ),
            (
                "chart",
                "Bars are the entropies of tokens, the line is the value, the flat line the trigger, and │ a cut.",
            ),
        ),
    ),
    (
        "Decision: look it up or not",
        (
            ("threshold", "Documents are looked up when u is greater than this; at equality the draft stands."),
            ("trigger", "While the answer is written: the value of a word from which on it is looked up."),
            ("agreement", "Whether two answers from memory say the same, by the rule that is named (PAIRS)."),
            ("chance", "How likely draft and answer from documents are right, as calibrated (dtr+verify)."),
            ("draft odds", "How many drafts of about this u were right, where that was measured for this model."),
        ),
    ),
    (
        "Paths: search with the question, the pseudo-context, or the question widened by the model",
        (
            ("rank", "Place in a list, from 1, the best."),
            ("dense score", "Inner product of two unit vectors: 1 is the same meaning, 0 is unrelated."),
            ("BM25 score", "Sum over the words of the search that a chunk holds; rare words weigh more."),
            ("RRF score", "Dense and BM25 search joined: the sum of 1 / (constant + rank) over both lists."),
        ),
    ),
    (
        "Selection (AIS): which chunks the answer is written from",
        (
            ("s1", "Inner product of chunk and question: how close the chunk is to what was asked."),
            ("s2", "Inner product of chunk and pseudo-context: how close it is to the imagined answer."),
            ("theta0", "Angle between question and pseudo-context: small when the model imagined close to home."),
            ("theta1", "Angle between chunk and question, the arc cosine of s1."),
            ("theta2", "Angle between chunk and pseudo-context, the arc cosine of s2."),
            ("AIS cos", "cos(theta1 + theta2): highest for chunks between question and pseudo-context."),
            ("AIS sum", "s1 + s2: highest for chunks close to both together."),
            ("AIS dynamic", "Minus the weighted mean of theta1 and theta2; theta0 sets the weight."),
            ("rerank", "Question and chunk read together by a reranker: log-odds that the chunk helps, 0 is even."),
            ("kept", "Whether the chunk is among the first k and was put before the model."),
        ),
    ),
    (
        "Timeline: what it cost",
        (
            (
                "ended",
                "By the model itself (end), at a stop text or after a whole sentence (stop), or at its limit (length).",
            ),
            ("tokens/s", "Tokens that the model wrote in one second."),
            ("prompt tokens", "Tokens that the model had to read before it wrote."),
            ("reused tokens", "Prompt tokens that an earlier call had read already, so they cost nothing."),
        ),
    ),
)


class HelpScreen(Dialog[None]):
    """Explain what is on the screen.

    Args:
        bindings: key and description of every key, in the order to show; keys of one description share a line.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,question_mark,q", "leave", "Close", show=False)]

    DEFAULT_CSS = """
    HelpScreen {
        & VerticalScroll { padding-right: 1; }
        & .heading { margin-top: 1; text-style: bold underline; }
        & .first { margin-top: 0; }
    }
    """

    def __init__(self, bindings: Sequence[tuple[str, str]]) -> None:
        super().__init__("Help")
        self._keys = tuple(bindings)

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(classes="body"):
            yield Static("Keys", classes="heading first")
            yield Static(_columns(_grouped(self._keys)))
            for heading, numbers in NUMBERS:
                yield Static(heading, classes="heading")
                yield Static(_columns(numbers))

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()


def _grouped(bindings: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """One row for each description, with all its keys."""
    keys: dict[str, list[str]] = {}
    for key, description in bindings:
        keys.setdefault(description, []).append(key)
    return [(" ".join(dict.fromkeys(names)), description) for description, names in keys.items()]


def _columns(rows: Sequence[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=14, no_wrap=True)
    table.add_column()
    for name, sentence in rows:
        table.add_row(Text(printable(name), style="bold"), Text(printable(sentence)))
    return table
