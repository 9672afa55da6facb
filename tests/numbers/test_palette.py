"""The scale of entropy: readable, even, and monotone in lightness, on dark and light pages."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.palette import (
    ENTROPY_CEILING,
    PLAIN_ENTROPY,
    WEAK_ENTROPY,
    contrast,
    is_weak,
    legend,
    shade,
)

ENTROPIES = st.floats(min_value=0.0, max_value=20.0)


def oklab(colour: str) -> tuple[float, float, float]:
    """The forward direction (Ottosson 2020), which the palette itself never takes."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    long = math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    medium = math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def background(entropy: float, *, dark: bool) -> str:
    colour = shade(entropy, dark=dark).background
    assert colour is not None
    return colour


def test_contrast_of_black_on_white_is_21():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)  # the grey that WCAG tools quote


@given(entropy=ENTROPIES, dark=st.booleans())
def test_text_is_readable_on_every_shade(entropy: float, dark: bool):
    colours = shade(entropy, dark=dark)
    page = "#121212" if dark else "#e0e0e0"
    assert contrast(colours.foreground, colours.background or page) >= 4.5


@given(one=ENTROPIES, other=ENTROPIES, dark=st.booleans())
def test_lightness_is_monotone_in_entropy(one: float, other: float, dark: bool):
    low, high = sorted(max(entropy, PLAIN_ENTROPY) for entropy in (one, other))
    rise = oklab(background(high, dark=dark))[0] - oklab(background(low, dark=dark))[0]
    assert (rise if dark else -rise) >= -0.002  # a step of 1/255 in one channel


@pytest.mark.parametrize("dark", [True, False])
def test_equal_steps_of_entropy_look_equally_far_apart(dark: bool):
    step = (ENTROPY_CEILING - PLAIN_ENTROPY) / 10
    points = [oklab(background(PLAIN_ENTROPY + number * step, dark=dark)) for number in range(11)]
    distances = [math.dist(left, right) for left, right in itertools.pairwise(points)]
    assert max(distances) <= 1.12 * min(distances)  # 8 bits a channel cost a few per cent
    assert min(distances) > 0.02  # about the least difference one sees


def test_certain_tokens_stay_plain():
    for entropy in (-1.0, 0.0, math.nextafter(PLAIN_ENTROPY, 0.0), math.nan):
        assert shade(entropy, dark=True).background is None
        assert shade(entropy, dark=False).background is None
    assert shade(PLAIN_ENTROPY, dark=True).background is not None


def test_plain_limit_is_a_token_at_95_per_cent_with_one_rival():
    assert -(0.95 * math.log(0.95) + 0.05 * math.log(0.05)) == pytest.approx(PLAIN_ENTROPY, abs=0.002)


@pytest.mark.parametrize("dark", [True, False])
def test_scale_saturates_at_the_ceiling(dark: bool):
    ceiling = shade(ENTROPY_CEILING, dark=dark)
    assert shade(1e300, dark=dark) == ceiling
    assert shade(ENTROPY_CEILING - 0.2, dark=dark) != ceiling


def test_weak_is_above_the_limit_not_at_it():
    assert not is_weak(WEAK_ENTROPY)
    assert is_weak(math.nextafter(WEAK_ENTROPY, 2.0))


@pytest.mark.parametrize("dark", [True, False])
def test_legend_names_nats_and_shows_the_shades_of_the_scale(dark: bool):
    samples = legend(dark)
    assert [label for label, _ in samples] == ["<0.2", "0.5", "1", "2", "3", "4+"]
    assert samples[0][1] == shade(0.0, dark=dark)
    assert [colours for _, colours in samples[1:]] == [shade(e, dark=dark) for e in (0.5, 1.0, 2.0, 3.0, 4.0)]
