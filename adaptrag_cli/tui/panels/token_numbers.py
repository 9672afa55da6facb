"""The numbers of one token and of what could have stood in its place, in a line or as a small table."""

from __future__ import annotations

import math

from rich.cells import cell_len, chop_cells, set_cell_size
from textual.content import Content

from adaptrag_cli.events import TokenGenerated
from adaptrag_cli.tables import probability, quoted
from adaptrag_cli.terminal import printable

_TOKEN_CELLS = 16
_BAR_CELLS = 24
_QUIET = "$foreground-muted"


def _others(token: TokenGenerated) -> list[tuple[str, float]]:
    return [(other.text, other.logprob) for other in token.alternatives if other.text != token.text]


def token_line(head: str, token: TokenGenerated, width: int) -> Content:
    """The token and its alternatives, as many as there is room for: a number is shown whole or not at all."""
    line = Content.assemble(
        (f"{head} ", _QUIET),
        (_shown(token.text), "bold"),
        f"  p {probability(token.logprob)}, {token.entropy:.2f} nats",
    )
    for number, (text, logprob) in enumerate(_others(token)):
        more = f"{_shown(text)} {probability(logprob)}"
        longer = Content.assemble(line, "  ", ("" if number else "or ", _QUIET), more)
        if longer.cell_length > width:
            break
        line = longer
    return line


def token_table(head: str, token: TokenGenerated) -> Content:
    """The same, one below the other, with bars."""
    rows = [(token.text, token.logprob), *_others(token)[:4]]
    lines = [Content.assemble((f"{head}, entropy ", _QUIET), f"{token.entropy:.2f} nats")]
    for number, (text, logprob) in enumerate(rows):
        label = "said" if not number else "instead" if number == 1 else ""
        lines.append(
            Content.assemble(
                (f"{label:<9}", _QUIET),
                (set_cell_size(_shown(text), _TOKEN_CELLS + 1), "" if number else "bold"),
                f"{probability(logprob)} ",
                ("█" * round(_BAR_CELLS * math.exp(min(logprob, 0.0))), _QUIET if number else "bold"),
            )
        )
    return Content("\n").join(lines)


def _shown(text: str) -> str:
    """The token in quotes, cut to the width of its column."""
    shown = printable(quoted(text))
    return shown if cell_len(shown) <= _TOKEN_CELLS else f'{chop_cells(shown, _TOKEN_CELLS - 2)[0]}…"'
