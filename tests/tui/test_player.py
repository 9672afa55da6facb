"""A player gives each event once, in order, when it is due."""

from __future__ import annotations

from adaptrag_cli.tui.player import SPEEDS, Player
from traces import retrieved

EVENTS = retrieved()  # 100 ms apart


def test_time_brings_the_events_that_are_due():
    player = Player(EVENTS)
    player.toggle()
    assert list(player.advance(250)) == EVENTS[:3]  # at 0, 100 and 200 ms
    assert player.advance(40) == ()
    assert list(player.advance(10)) == EVENTS[3:4]
    assert player.elapsed_ms == 300.0


def test_paused_time_does_not_count():
    player = Player(EVENTS)
    assert player.advance(10_000) == ()
    player.toggle()
    player.advance(100)
    player.toggle()
    assert player.advance(10_000) == ()
    assert player.position == 2


def test_speed_multiplies_time_and_stays_within_the_table():
    player = Player(EVENTS)
    player.toggle()
    player.change_speed(1)
    assert player.speed == 2.0
    assert len(player.advance(200)) == 5  # 0 to 400 ms
    for _ in range(20):
        player.change_speed(1)
    assert player.speed == SPEEDS[-1]
    for _ in range(20):
        player.change_speed(-1)
    assert player.speed == SPEEDS[0]


def test_a_step_pauses_and_time_goes_on_from_there():
    player = Player(EVENTS)
    player.toggle()
    player.advance(50)
    assert player.step() == (EVENTS[1],)
    assert not player.is_playing
    player.toggle()
    assert player.advance(100) == (EVENTS[2],)


def test_the_end_stops_it_and_playing_again_starts_anew():
    player = Player(EVENTS)
    player.toggle()
    assert list(player.advance(1e9)) == EVENTS
    assert player.is_at_end
    assert not player.is_playing
    assert player.step() == ()
    player.toggle()
    assert (player.position, player.is_playing) == (0, True)


def test_finish_gives_the_rest():
    player = Player(EVENTS)
    player.step()
    assert list(player.finish()) == EVENTS[1:]
    assert list(player.shown) == EVENTS
    assert player.finish() == ()
