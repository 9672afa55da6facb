"""Generated tokens as running text: the background tells the entropy, and a pointer picks one token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from adaptrag_cli.events import TokenGenerated
from adaptrag_cli.palette import is_weak, shade
from adaptrag_cli.tui.panels.token_lines import NEWLINE_MARK, Piece, TokenLines, wrapped

_SPACES_LOOKED_PAST = 5
_MARK = Style(bold=True, reverse=True)


class TokenView(ScrollView):
    """Running text of tokens. Neighbouring weak tokens are underlined as one span, discarded ones struck through.

    It follows the end while tokens come, until the person points elsewhere with a key or a click, or scrolls up.
    """

    DEFAULT_CSS = """
    TokenView {
        height: auto;
        overflow-x: hidden;
        scrollbar-gutter: stable;
        scrollbar-size: 0 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "point(-1)", "Token back", show=False),
        Binding("right", "point(1)", "Token on", show=False),
        Binding("up", "point_line(-1)", "Line up", show=False),
        Binding("down", "point_line(1)", "Line down", show=False),
        Binding("home", "point_end(0)", "First token", show=False),
        Binding("end", "point_end(1)", "Last token", show=False),
    ]

    class Pointed(Message):
        """Another token is pointed at, or none. `step` counts from 0."""

        def __init__(self, token: TokenGenerated | None, step: int | None) -> None:
            super().__init__()
            self.token = token
            self.step = step

    def __init__(self) -> None:
        super().__init__()
        self._tokens: list[TokenGenerated] = []
        self._lines = TokenLines(0)
        self._discarded: set[int] = set()
        self._marks: dict[int, str] = {}
        """What stands before a token, by its number."""
        self._waiting_mark = ""
        self._step: int | None = None
        self._follows = True
        self._holds = False
        """Whether the person put the pointer where it is, before the end."""

    @property
    def tokens(self) -> Sequence[TokenGenerated]:
        """All tokens that are shown."""
        return self._tokens

    @property
    def discarded(self) -> int:
        """How many of them do not count any more."""
        return len(self._discarded)

    @property
    def step(self) -> int | None:
        """The token that is pointed at."""
        return self._step

    def clear(self) -> None:
        """Forget the text."""
        self._tokens = []
        self._discarded, self._marks, self._waiting_mark = set(), {}, ""
        self._lines = TokenLines(self._lines.width)
        self.point(None)
        self._follows, self._holds = True, False
        self.virtual_size = Size(self._lines.width, 0)
        self.scroll_to(y=0, animate=False)
        self.refresh()

    def append(self, tokens: Sequence[TokenGenerated]) -> None:
        """Show more tokens; the lines before the last one are not touched."""
        if not tokens:
            return
        first = len(self._tokens)
        self._tokens += tokens
        if self._waiting_mark:
            self._marks[first], self._waiting_mark = self._waiting_mark, ""
        if self._lines.width:
            first_changed = min([self._lines.add(self._text(n)) for n in range(first, len(self._tokens))])
            self._update_size()
            self.refresh_lines(max(first_changed - 1, 0), len(self._lines.lines))  # a span may begin on the line before
            self._follow()

    def discard(self, first: int) -> None:
        """Strike through the tokens from this one to the last."""
        self._discarded.update(range(first, len(self._tokens)))
        places = (self._lines.place(number) for number in range(first, self._lines.tokens))
        line = next((place for place in places if place is not None), None)
        if line is not None:
            self.refresh_lines(max(line - 1, 0), len(self._lines.lines))

    def mark(self, text: str) -> None:
        """Put a mark before the token that comes next."""
        self._waiting_mark = text

    def point(self, step: int | None) -> None:
        """Point at a token."""
        if step == self._step:
            return
        self._refresh_token(self._step)
        self._step = step
        self._refresh_token(step)
        self.post_message(self.Pointed(None if step is None else self._tokens[step], step))

    # --- keys and mouse

    def action_point(self, direction: int) -> None:
        """Go to the token before or after; without a pointer, to the last or the first."""
        if self._step is None:
            self.action_point_end(0 if direction > 0 else 1)
        else:
            self._move(self._lines.neighbour(self._step, direction))

    def action_point_line(self, direction: int) -> None:
        """Go to the line above or below."""
        if self._step is None:
            self.action_point_end(0 if direction > 0 else 1)
        else:
            self._move(self._lines.above(self._step, direction))

    def action_point_end(self, which: int) -> None:
        """Go to the first (0) or the last token (1)."""
        ends = self._lines.ends()
        self._move(ends[which] if ends else None)
        if ends and which:
            self._follows, self._holds = True, False
            self._follow()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        token = self._under(event)
        if token is not None:
            self.point(token)

    def on_click(self, event: events.Click) -> None:
        self._move(self._under(event))

    def _under(self, event: events.MouseEvent) -> int | None:
        offset = event.get_content_offset(self)
        return None if offset is None else self._lines.at(offset.y + self.scroll_offset.y, offset.x)

    def _move(self, token: int | None) -> None:
        if token is None:
            return
        self.point(token)
        ends = self._lines.ends()
        self._holds = ends is not None and token != ends[1]
        line = self._lines.place(token)
        if line is not None:
            self.scroll_to_region(Region(0, line, 1, 1), animate=False, force=True, x_axis=False)

    # --- geometry

    def on_resize(self) -> None:
        width = self.scrollable_content_region.width
        if width > 0 and width != self._lines.width:
            self._lines = wrapped(map(self._text, range(len(self._tokens))), width)
            self._update_size()
            self.refresh()
        self._follow()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Scrolling up ends the following, scrolling to the end resumes it."""
        super().watch_scroll_y(old_value, new_value)
        if new_value >= self.max_scroll_y:
            self._follows = True
        elif new_value < old_value:
            self._follows = False

    def _follow(self) -> None:
        if self._follows and not self._holds:
            # Forced, since the scrollbar without which nothing scrolls may come with the next layout only.
            self.scroll_end(animate=False, immediate=False, force=True, x_axis=False)

    def watch_show_vertical_scrollbar(self, is_shown: bool) -> None:
        """Put a scrollbar that comes after its text was scrolled where the text is."""
        if is_shown:
            self.vertical_scrollbar.position = self.scroll_y

    def _update_size(self) -> None:
        lines = self._lines.lines
        height = len(lines) - (1 if lines and not lines[-1] else 0)
        if height != self.virtual_size.height or self._lines.width != self.virtual_size.width:
            self.virtual_size = Size(self._lines.width, height)

    def _refresh_token(self, step: int | None) -> None:
        line = None if step is None or step >= self._lines.tokens else self._lines.place(step)
        if line is not None:
            self.refresh_lines(max(line - 1, 0), 2)  # its leading space may stand on the line before

    # --- drawing

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        number = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        base = self.rich_style
        if number >= len(self._lines.lines):
            return Strip.blank(width, base)
        dark = self.app.current_theme.dark
        segments = [
            Segment(piece.text, base if self._hangs(piece, number) else base + self._style(piece, dark))
            for piece in self._lines.lines[number]
        ]
        return Strip(segments).crop_extend(0, width, base)

    def _hangs(self, piece: Piece, line: int) -> bool:
        """Whether it is the space before a word that stands on the next line."""
        return piece.is_blank and self._lines.place(piece.token) != line

    def _text(self, number: int) -> str:
        """A token with the mark before it, which is a word of its own."""
        text, mark = self._tokens[number].text, self._marks.get(number)
        return text if mark is None else f" {mark}{'' if text[:1].isspace() else ' '}{text}"

    def _style(self, piece: Piece, dark: bool) -> Style:
        if self._marks.get(piece.token) == piece.text:
            return _MARK
        if piece.is_blank and piece.token in self._marks:
            return Style()  # beside the mark
        token = self._tokens[piece.token]
        return _style(
            token.entropy,
            dark=dark,
            in_span=self._in_span(piece),
            is_mark=piece.text == NEWLINE_MARK,
            is_pointed=piece.token == self._step,
            is_discarded=piece.token in self._discarded,
        )

    def _in_span(self, piece: Piece) -> bool:
        """Whether the piece belongs to a weak span: spaces do when both sides are weak."""
        token = self._tokens[piece.token]
        if is_weak(token.entropy):
            return not piece.is_blank or self._is_weak_beside(piece.token, -1)
        is_space = not token.text.strip(" ")
        return is_space and self._is_weak_beside(piece.token, -1) and self._is_weak_beside(piece.token, 1)

    def _is_weak_beside(self, token: int, step: int) -> bool:
        """Whether the next token before (-1) or after (+1) that is more than a space is weak."""
        for number in range(token + step, token + _SPACES_LOOKED_PAST * step, step):
            if not 0 <= number < len(self._tokens):
                return False
            beside = self._tokens[number]
            if is_weak(beside.entropy) or beside.text.strip(" "):
                return is_weak(beside.entropy)
        return False


@lru_cache(maxsize=8192)
def _style(entropy: float, *, dark: bool, in_span: bool, is_mark: bool, is_pointed: bool, is_discarded: bool) -> Style:
    colours = shade(0.0 if is_discarded else entropy, dark=dark)
    plain = is_pointed or colours.background is None  # the pointer has the page's own colours, reversed
    return Style(
        color=None if plain else colours.foreground,
        bgcolor=None if plain else colours.background,
        bold=(in_span and not is_discarded) or is_pointed or None,
        underline=(in_span and not is_discarded) or None,
        strike=is_discarded or None,
        dim=(((is_mark and plain) or is_discarded) and not is_pointed) or None,
        reverse=is_pointed or None,
    )
