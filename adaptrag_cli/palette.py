"""The colours of entropy: one scale in nats for the terminal interface and for exported pages.

The scale is a helix in OKLCH (Ottosson 2020): lightness and hue move in step while chroma stays, so equal steps of
entropy are equal distances in OKLab, and lightness alone (monochrome, colour blindness) still tells the order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ENTROPY_CEILING = 4.0
"""In nats, where the scale ends: as unsure as between 55 equally likely tokens. Greedy tokens of small models seldom
pass it, and above it there is nothing left to tell apart."""
PLAIN_ENTROPY = 0.2
"""In nats; tokens below stay plain. One token at 95 % with a single rival has 0.199."""
WEAK_ENTROPY = 1.0
"""In nats; a token above is weak: as unsure as between more than e = 2.7 equally likely tokens."""

_LIGHT_INK = "#ffffff"
_DARK_INK = "#000000"
_LEGEND = (0.0, 0.5, 1.0, 2.0, 3.0, ENTROPY_CEILING)


@dataclass(frozen=True, kw_only=True)
class Shade:
    """How a token of some entropy looks. Colours are `#rrggbb`; without a background it is plain text."""

    background: str | None
    foreground: str


@dataclass(frozen=True, kw_only=True)
class _Helix:
    """From the colour of the smallest shaded entropy to that of the ceiling; hues in degrees."""

    lightness: tuple[float, float]
    hue: tuple[float, float]
    chroma: float

    def at(self, share: float) -> tuple[float, float, float]:
        """Linear sRGB, each 0 to 1, of the colour that lies `share` of the way."""
        lightness = _between(self.lightness, share)
        hue = math.radians(_between(self.hue, share))
        red, green, blue = _linear_srgb(lightness, self.chroma * math.cos(hue), self.chroma * math.sin(hue))
        return _clipped(red), _clipped(green), _clipped(blue)


_ON_DARK = _Helix(lightness=(0.30, 0.82), hue=(300.0, 435.0), chroma=0.11)  # violet, rose, orange, amber
_ON_LIGHT = _Helix(lightness=(0.94, 0.58), hue=(96.0, 8.0), chroma=0.10)  # straw, apricot, rose


def shade(entropy: float, *, dark: bool) -> Shade:
    """Return the colours of a token, for a dark or a light page. Text on a shade has a WCAG contrast above 4.5."""
    if not entropy >= PLAIN_ENTROPY:
        return Shade(background=None, foreground=_LIGHT_INK if dark else _DARK_INK)
    share = (min(entropy, ENTROPY_CEILING) - PLAIN_ENTROPY) / (ENTROPY_CEILING - PLAIN_ENTROPY)
    background = _hex((_ON_DARK if dark else _ON_LIGHT).at(share))
    # Of black and white, the better one has a contrast of at least 4.58 on any colour.
    ink = max((_LIGHT_INK, _DARK_INK), key=lambda candidate: contrast(candidate, background))
    return Shade(background=background, foreground=ink)


def is_weak(entropy: float) -> bool:
    """Whether a token belongs to a weak span."""
    return entropy > WEAK_ENTROPY


def legend(dark: bool) -> tuple[tuple[str, Shade], ...]:
    """Return samples of the scale with their entropies in nats, from plain to the ceiling."""
    return tuple((_label(entropy), shade(entropy, dark=dark)) for entropy in _LEGEND)


def contrast(one: str, other: str) -> float:
    """Return the WCAG 2 contrast of two `#rrggbb` colours, 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _label(entropy: float) -> str:
    if entropy < PLAIN_ENTROPY:
        return f"<{PLAIN_ENTROPY:g}"
    return f"{entropy:g}{'+' if entropy == ENTROPY_CEILING else ''}"


def _between(ends: tuple[float, float], share: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * share


def _linear_srgb(lightness: float, a: float, b: float) -> tuple[float, float, float]:
    """OKLab to linear sRGB, with Ottosson's matrices."""
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _clipped(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _hex(linear: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255 * _gamma(value)):02x}" for value in linear)


def _gamma(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055


def _luminance(colour: str) -> float:
    red, green, blue = (_ungamma(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _ungamma(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
