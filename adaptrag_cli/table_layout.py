"""Columns that need no line drawing, and trees; both read well at 80 characters.

All text goes through `printable` and becomes a rich `Text`, so neither escapes nor markup in a document mean anything.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TextIO

from adaptrag_cli.events import Scalar
from adaptrag_cli.terminal import is_plain, printable

if TYPE_CHECKING:
    from rich.console import Console

Row = Sequence[Scalar]


@contextmanager
def drawing_on(stream: TextIO) -> Iterator[Console]:
    """A console whose lines go to `stream` at the end, without the spaces that fill columns."""
    from rich.console import Console

    plain = is_plain(stream)
    lines = io.StringIO()
    console = Console(
        file=lines,
        width=shutil.get_terminal_size().columns if stream.isatty() else 80,
        color_system=None if plain else "auto",
        force_terminal=not plain,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    yield console
    text = lines.getvalue().removesuffix("\n")
    stream.writelines(f"{line.rstrip()}\n" for line in text.split("\n"))
    stream.flush()


def head(console: Console, text: str) -> None:
    """Print a heading with a blank line before it."""
    from rich.text import Text

    console.print()
    console.print(Text(printable(text), style="bold"))


def paragraph(console: Console, *parts: str | tuple[str, str]) -> None:
    """Print running text; a part may have a style."""
    from rich.padding import Padding
    from rich.text import Text

    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    shown = [(printable(text, keep_newlines=True), style) for text, style in pairs]
    console.print(Padding(Text.assemble(*shown), (0, 0, 0, 2)))


def tree(console: Console, root: str, branches: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Print a text with its branches, and theirs; the guides are plain ASCII."""
    from rich.padding import Padding
    from rich.segment import Segments
    from rich.text import Text
    from rich.tree import Tree

    drawn = Tree(Text(printable(root)), guide_style="dim")
    for label, leaves in branches:
        branch = drawn.add(Text(printable(label)))
        for leaf in leaves:
            branch.add(Text(printable(leaf)))
    options = console.options.copy()
    options.encoding = "ascii"
    console.print(Segments(console.render(Padding(drawn, (0, 0, 0, 2)), options)), end="")


def table(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Row],
    *,
    right: Sequence[int] = (),
    folded: Sequence[int] = (-1,),
) -> None:
    """Print rows; when they are too wide, only the `folded` columns give way, over several lines."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    cells = [[Text(printable("" if value is None else str(value))) for value in row] for row in rows]
    width = len(columns) or max(map(len, cells), default=0)
    folding = {position % width for position in folded} if width else set()
    table = Table(box=None, show_header=bool(columns), pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for position, name in enumerate(columns or [""] * width):
        justify: Literal["left", "right"] = "right" if position in right else "left"
        table.add_column(name, justify=justify, no_wrap=position not in folding, overflow="fold")
    for row in cells:
        table.add_row(*row)
    console.print(Padding(table, (0, 0, 0, 2)))
