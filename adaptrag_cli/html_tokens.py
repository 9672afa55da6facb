"""Tokens on an exported page: shaded by entropy, weak spans underlined, with their numbers in the title."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.etree.ElementTree import Element

from adaptrag_cli.events import TokenGenerated
from adaptrag_cli.html_figures import element
from adaptrag_cli.palette import Shade, is_weak, legend, shade
from adaptrag_cli.tables import others, probability, quoted


class Shades:
    """Class names for the colours of tokens, each with its rule for light and for dark pages."""

    def __init__(self) -> None:
        self._names: dict[tuple[Shade, Shade], str] = {}

    def name(self, light: Shade, dark: Shade) -> str:
        return self._names.setdefault((light, dark), f"e{len(self._names)}")

    def css(self) -> str:
        light = "\n".join(_rule(name, pair[0]) for pair, name in self._names.items())
        dark = "\n".join(_rule(name, pair[1]) for pair, name in self._names.items())
        return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def _rule(name: str, colours: Shade) -> str:
    return f".{name} {{ background: {colours.background}; color: {colours.foreground}; }}" if colours.background else ""


def token_spans(tokens: Sequence[TokenGenerated], shades: Shades) -> Iterator[Element]:
    """Make a span of each run of weak or of sure tokens."""
    for weak, group in groupby(tokens, key=lambda token: is_weak(token.entropy)):
        yield element("span", *(_token(token, shades) for token in group), class_="weak" if weak else "sure")


def scale(shades: Shades) -> Element:
    samples = [
        element("span", label, class_=shades.name(light, dark))
        for (label, light), (_, dark) in zip(legend(False), legend(True), strict=True)
    ]
    return element("p", "entropy ", element("span", *samples), class_="legend note")


def _token(token: TokenGenerated, shades: Shades) -> Element:
    instead = others(token)
    numbers = f"{quoted(token.text)}: p {probability(token.logprob)}, entropy {token.entropy:.2f} nats"
    title = f"{numbers}\ninstead: {instead}" if instead else numbers
    colours = shade(token.entropy, dark=False), shade(token.entropy, dark=True)
    return element("span", token.text.replace("\n", "\u21b5\n"), title=title, class_=shades.name(*colours))
