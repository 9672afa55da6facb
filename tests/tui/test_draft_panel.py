"""The draft panel: wrapping, pointing, following, the chart's peaks, and the numbers in words."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot
from textual.widgets import Static

import traces
from adaptrag_cli.events import (
    Alternative,
    DecisionMade,
    Event,
    GenerationReused,
    PromptBuilt,
    TokenGenerated,
)
from adaptrag_cli.tui.panels.draft import DraftPanel
from adaptrag_cli.tui.panels.entropy_chart import EntropyChart, Peaks
from adaptrag_cli.tui.panels.token_lines import NEWLINE_MARK, TokenLines, wrapped
from adaptrag_cli.tui.panels.token_view import TokenView
from panel_host import PanelHost

ENTROPIES = (0.05, 0.5, 1.5, 2.5, 4.5)


def tokens(*texts: str, entropy: float | None = None) -> list[TokenGenerated]:
    return [
        TokenGenerated(
            phase="draft",
            step=step,
            text=text,
            logprob=-0.5,
            entropy=ENTROPIES[step % 5] if entropy is None else entropy,
            alternatives=(Alternative(text=text, logprob=-0.5), Alternative(text=" no", logprob=math.log(0.25))),
        )
        for step, text in enumerate(texts)
    ]


def words(count: int) -> list[TokenGenerated]:
    return tokens(*(f" word{number % 7}" for number in range(count)))


def shown_lines(lines: TokenLines) -> list[str]:
    return ["".join(piece.text for piece in line) for line in lines.lines]


def drive(
    panel: DraftPanel,
    events: list[Event],
    test: Callable[[Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (76, 24),
) -> PanelHost:
    async def run() -> PanelHost:
        app = PanelHost(panel, events)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await test(pilot)
        return app

    return asyncio.run(run())


def said(panel: DraftPanel, part: str) -> str:
    return str(panel.query_one(f"#draft-{part}", Static).content)


# --- more than one answer from memory


def test_the_answer_of_the_pseudo_context_stands_below_the_draft():
    panel = DraftPanel()
    run = traces.pairs()

    async def test(pilot: Pilot[None]) -> None:
        assert not panel.query_one("#draft-second").display
        panel.show(run[12:16])  # its prompt and two of its three tokens
        await pilot.pause()
        assert panel.query_one("#draft-second").display
        assert said(panel, "second") == "from the pseudo-context: <answer>21:00"
        panel.show(run[16:])
        assert said(panel, "second") == "from the pseudo-context: <answer>21:00</answer>"
        assert said(panel, "summary") == "3 tokens, mean NLL 0.50 (nats), mean entropy 1.25"
        panel.begin()
        await pilot.pause()
        assert not panel.query_one("#draft-second").display

    drive(panel, run[:12], test)


def test_a_draft_that_follows_the_decision_is_not_denied_before_it_comes():
    panel = DraftPanel()
    run = traces.judge_skips()

    async def test(pilot: Pilot[None]) -> None:
        assert said(panel, "note") == "no draft yet"
        panel.show(run[7:])
        assert said(panel, "summary").startswith("2 tokens, mean NLL 0.50 (nats)")
        panel.begin()
        panel.show(traces.judge())
        assert said(panel, "note") == "`llm-judge` writes no draft: the judge says Yes"

    drive(panel, run[:7], test)


# --- wrapping


def test_words_made_of_several_tokens_are_not_torn():
    lines = wrapped(["The", " qu", "iet", " time"], 8)
    assert shown_lines(lines) == ["The ", "quiet ", "time"]
    assert [lines.place(token) for token in range(4)] == [0, 1, 1, 2]


def test_newlines_break_lines_and_stay_visible():
    assert shown_lines(wrapped(["a\n", "\nb"], 20)) == [f"a{NEWLINE_MARK}", NEWLINE_MARK, "b"]


def test_control_characters_are_shown_as_escapes():
    assert shown_lines(wrapped(["\x1b[31m", "\u202e"], 40)) == ["\\x1b[31m\\u202e"]


def test_wide_characters_count_double():
    # Five of two cells each; the last of eight columns is kept for a space, so three fit.
    assert shown_lines(wrapped(["日本語", "の文"], 8)) == ["日本語", "の文"]


def test_a_token_without_text_is_counted_but_has_no_place():
    lines = wrapped(["a", "", "b"], 20)
    assert (lines.tokens, lines.place(1)) == (3, None)
    assert (lines.neighbour(0, 1), lines.neighbour(2, -1)) == (2, 0)


@given(
    texts=st.lists(st.text(alphabet="ab \n\t日é\x1b", max_size=12), max_size=40),
    width=st.integers(min_value=4, max_value=30),
)
def test_every_line_fits_and_nothing_is_lost(texts: list[str], width: int):
    lines = wrapped(texts, width)
    for line in lines.lines:
        assert sum(piece.width for piece in line) <= width
        assert [piece.start for piece in line] == [sum(p.width for p in line[:i]) for i in range(len(line))]
    shown = "".join(shown_lines(lines))
    assert shown == "".join(texts).replace("\n", NEWLINE_MARK).replace("\t", "    ").replace("\x1b", "\\x1b")


def test_a_new_token_touches_the_last_line_only():
    lines = TokenLines(40)
    touched = 0
    for token in words(4000):
        first = lines.add(token.text)
        touched += len(lines.lines) - first
    # Each token changes one line, and two when it begins a line: 4,000 and one for every line begun.
    assert touched == 4000 + len(lines.lines) - 1


def test_wrapping_at_once_and_in_steps_is_the_same():
    texts = [token.text for token in words(300)]
    stepwise = TokenLines(33)
    for text in texts:
        stepwise.add(text)
    assert stepwise.lines == wrapped(texts, 33).lines


# --- the peaks of the chart


def test_peaks_stay_when_runs_are_merged():
    peaks = Peaks(4)
    for step, value in enumerate([1.0, 9.0, 2.0, 3.0, 4.0, 1.0, 1.0, 8.0, 5.0]):
        peaks.add(step, value)
    # Nine values in four runs need a length of four: the largest of 0-3, 4-7 and 8.
    assert (peaks.length, peaks.values) == (4, [9.0, 8.0, 5.0])
    assert peaks.points() == ([2.5, 6.5, 10.5], [9.0, 8.0, 5.0])


@given(values=st.lists(st.floats(min_value=0, max_value=5), min_size=1, max_size=300), limit=st.integers(1, 50))
def test_peaks_keep_the_largest_and_fit_the_width(values: list[float], limit: int):
    peaks = Peaks(limit)
    for step, value in enumerate(values):
        peaks.add(step, value)
    assert len(peaks.values) <= limit
    assert max(peaks.points()[1]) == max(values)


def test_steps_without_a_value_leave_a_gap():
    peaks = Peaks(10)
    peaks.add(1, 0.5)
    peaks.add(4, -1.0)
    assert peaks.points() == ([2.0, 5.0], [0.5, -1.0])


# --- pointing


def test_keys_move_the_pointer_over_tokens_with_text():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        view = panel.query_one(TokenView)
        for key, step in (("right", 0), ("right", 2), ("left", 0), ("end", 3), ("home", 0), ("down", 3), ("up", 0)):
            await pilot.press(key)
            assert (key, view.step) == (key, step)

    drive(panel, [traces.started(), *tokens("a", "", " b\n", "c")], test)


def test_pointing_shows_probability_entropy_and_alternatives():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        await pilot.press("home", "right", "right")
        await pilot.pause()
        # exp(-0.5) = 0.607; the token itself is no alternative.
        assert said(panel, "token") == 'token 3 " c"  p 0.607, 1.50 nats  or " no" 0.250'

    drive(panel, [traces.started(), *tokens("a", " b", " c")], test, size=(76, 14))


def test_an_alternative_is_told_with_its_number_or_not_at_all():
    panel = DraftPanel()
    others = tuple(Alternative(text=text, logprob=math.log(0.125)) for text in ("one", "two", "three"))
    token = msgspec.structs.replace(tokens("a")[0], alternatives=others)

    async def test(pilot: Pilot[None]) -> None:
        # 56 columns, of which the box takes 4: 50 are used, and the second would take 13 more.
        assert said(panel, "token") == 'least sure "a"  p 0.607, 0.05 nats  or "one" 0.125'

    drive(panel, [traces.started(), token], test, size=(56, 14))


def test_before_anything_is_pointed_at_the_least_sure_token_is_told():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        assert said(panel, "token").startswith('least sure " e"  p 0.607, 4.50 nats')

    drive(panel, [traces.started(), *tokens("a", " b", " c", " d", " e", " f")], test, size=(76, 14))


def test_a_large_panel_lists_the_alternatives_as_a_table():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        assert said(panel, "token").splitlines() == [
            "least sure, entropy 0.05 nats",
            'said     "日本"           0.607 ' + "█" * 15,
            'instead  " no"            0.250 ' + "█" * 6,
        ]

    drive(panel, [traces.started(), *tokens("日本")], test, size=(90, 30))


def test_hover_and_click_point():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        view = panel.query_one(TokenView)
        await pilot.hover(view, offset=(4, 0))
        assert view.step == 1
        await pilot.click(view, offset=(0, 0))
        assert view.step == 0
        await pilot.hover(view, offset=(60, 0))
        assert view.step == 0  # nothing is there

    drive(panel, [traces.started(), *tokens("One", " two")], test)


# --- following the end


def test_view_follows_the_end_until_the_person_points_elsewhere():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        view = panel.query_one(TokenView)
        panel.show(words(500))
        await pilot.pause()
        assert view.scroll_offset.y == view.max_scroll_y > 0
        await pilot.press("home")
        assert view.scroll_offset.y == 0
        panel.show(words(100))
        await pilot.pause()
        assert view.scroll_offset.y == 0
        await pilot.press("end")
        panel.show(words(100))
        await pilot.pause()
        assert view.scroll_offset.y == view.max_scroll_y

    drive(panel, [traces.started()], test)


def test_scrolling_up_ends_the_following():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        view = panel.query_one(TokenView)
        panel.show(words(500))
        await pilot.pause()
        view.scroll_up(animate=False)
        await pilot.pause()
        place = view.scroll_offset.y
        panel.show(words(100))
        await pilot.pause()
        assert view.scroll_offset.y == place

    drive(panel, [traces.started()], test)


def test_four_thousand_tokens_wrap_again_only_on_another_width(monkeypatch: pytest.MonkeyPatch):
    panel = DraftPanel()
    added: list[str] = []
    add = TokenLines.add
    monkeypatch.setattr(TokenLines, "add", lambda self, text: (added.append(text), add(self, text))[1])

    async def test(pilot: Pilot[None]) -> None:
        for start in range(0, 4000, 100):
            panel.show(words(4000)[start : start + 100])
        await pilot.pause()
        assert len(added) == 4000
        await pilot.resize_terminal(100, 24)
        await pilot.pause()
        assert len(added) == 8000

    drive(panel, [traces.started()], test)


# --- weak spans


def test_neighbouring_weak_tokens_are_underlined_as_one_span():
    panel = DraftPanel()
    texts = (" sure", " weak", " too", " ", " weak", " sure")
    entropies = (0.1, 1.5, 2.0, 0.1, 3.0, 0.1)
    run = [msgspec.structs.replace(t, entropy=e) for t, e in zip(tokens(*texts), entropies, strict=True)]

    async def test(pilot: Pilot[None]) -> None:
        strip = panel.query_one(TokenView).render_line(0)
        underlined = "".join(s.text if s.style and s.style.underline else "." * len(s.text) for s in strip)
        assert underlined.rstrip(".") == "......weak too  weak"

    drive(panel, [traces.started(), *run], test)


# --- words


def test_numbers_before_the_measurement_are_so_far():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        # (0.05 + 0.5) / 2 = 0.275, which binary halves put below or above: 0.28.
        assert said(panel, "summary") == "2 tokens, mean NLL 0.50 so far (nats), mean entropy 0.28"

    drive(panel, [traces.started(), *tokens("a", " b")], test)


def test_measured_uncertainty_comes_from_the_stream():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        assert said(panel, "summary") == "2 tokens, mean NLL u = 0.57 (nats), mean entropy 1.25"

    drive(panel, traces.retrieved(), test)


@pytest.mark.parametrize(
    ("run", "note"),
    [
        ([], "no draft yet"),
        (traces.always(), "`always` writes no draft: every question is looked up"),
        (traces.blank_draft(), "the draft is empty: the model ended at once (end)"),
        (
            [traces.started(), PromptBuilt(phase="draft", text="p", tokens=1234)],
            "the model reads the prompt (1,234 tokens)",
        ),
        ([traces.started(), GenerationReused(phase="draft", text="10 pm")], "reused: not generated again\n10 pm"),
    ],
    ids=["nothing", "always", "blank", "prefill", "reused text"],
)
def test_an_empty_panel_says_why(run: list[Event], note: str):
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        assert said(panel, "note") == note
        assert panel.query_one("#draft-note").region.height >= 1
        assert not panel.query_one(TokenView).display

    drive(panel, run, test)


def test_a_reused_draft_says_so():
    panel = DraftPanel()
    run = [traces.started(), GenerationReused(phase="draft", text="10 pm"), *tokens("10", " pm")]

    async def test(pilot: Pilot[None]) -> None:
        assert said(panel, "summary").startswith("reused: not generated again, 2 tokens, ")

    drive(panel, run, test)


def test_a_second_call_replaces_the_first_and_another_run_forgets_it():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        panel.show([PromptBuilt(phase="draft", text="p", tokens=1), *tokens("c")])
        assert [token.text for token in panel.query_one(TokenView).tokens] == ["c"]
        panel.begin()
        assert said(panel, "note") == "no draft yet"
        assert not panel.query_one(TokenView).tokens

    drive(panel, [traces.started(), *tokens("a", " b")], test)


def test_what_was_not_consulted_leaves_the_draft_alone():
    panel = DraftPanel()

    async def test(pilot: Pilot[None]) -> None:
        panel.show([GenerationReused(phase="draft", text="x"), *tokens("x")], consulted=False)
        assert len(panel.query_one(TokenView).tokens) == 2

    drive(panel, traces.skipped(), test)


def test_chart_waits_between_drawings_and_draws_at_the_end(monkeypatch: pytest.MonkeyPatch):
    panel = DraftPanel()
    drawn: list[int] = []
    draw = EntropyChart.draw
    monkeypatch.setattr(EntropyChart, "draw", lambda self: (drawn.append(1), draw(self))[1])
    monkeypatch.setattr("adaptrag_cli.tui.panels.entropy_chart.monotonic", lambda: 1000.0)

    async def test(pilot: Pilot[None]) -> None:
        panel.show(words(1))
        before = len(drawn)
        for _ in range(10):
            panel.show(words(1))
        assert len(drawn) == before  # the clock stands still
        panel.show([DecisionMade(retrieve=True, uncertainty=0.5, threshold=0.3, reason="r")])
        assert len(drawn) == before + 1  # no token came, but ten were waiting
        panel.show([traces.finished("10 pm", "draft")])
        assert len(drawn) == before + 1

    drive(panel, [traces.started()], test)


# --- looks


def looking(count: int = 40) -> list[Event]:
    text = (
        "Quiet",
        "time",
        "starts",
        "at",
        "10",
        "pm",
        "on",
        "week",
        "days",
        "and",
        "at",
        "mid",
        "night",
        "on",
        "Satur",
    )
    run = tokens(*(f" {text[number % len(text)]}" for number in range(count)))
    return [traces.started(), *run, *traces.drafted(0.57, retrieve=True)[-2:]]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_looks(snap_compare, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert snap_compare(PanelHost(DraftPanel(), looking()), terminal_size=size, press=["home", "right", "right"])


def test_looks_of_a_trend_in_a_light_theme(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    app = PanelHost(DraftPanel(), traces.looked_up_twice())
    app.theme = "textual-light"
    assert snap_compare(app, terminal_size=(120, 40))


def test_looks_without_colour_in_a_small_tab(snap_compare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(PanelHost(DraftPanel(), looking()), terminal_size=(76, 14), press=["home"])
