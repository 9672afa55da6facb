"""Plain text, Markdown, reStructuredText and source code: read raw, so that a cited line is the line in the editor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from adaptrag_cli.documents.base import Document, Heading
from adaptrag_cli.documents.builder import stem
from adaptrag_cli.documents.encoding import decode
from adaptrag_cli.documents.folder import SourceFile

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FRONT_TITLE = re.compile(r"^title:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_RST_RULE = re.compile(r"([!-/:-@\[-`{-~])\1+[ \t]*$")


def load_plain(file: SourceFile) -> Document:
    """Read a text file as it is."""
    return _document(file, stem(file.name))


def load_code(file: SourceFile) -> Document:
    """Read a source file as it is; its title is its path."""
    return _document(file, file.name, format="code")


def load_markdown(file: SourceFile) -> Document:
    """Read Markdown as it is; headings and the front matter's title are found, code fences are not searched."""
    document = _document(file, "", format="markdown")
    body = _front_matter_end(document.text)
    headings = tuple(markdown_headings(document.text, body))
    title = _FRONT_TITLE.search(document.text[:body])
    return _titled(document, headings, title[1].strip("\"'") if title else "")


def load_rst(file: SourceFile) -> Document:
    """Read reStructuredText as it is; section titles are found, their level is the order of their styles."""
    document = _document(file, "")
    return _titled(document, tuple(rst_headings(document.text)), "")


def markdown_headings(text: str, start: int = 0) -> Iterator[Heading]:
    """Find ATX and setext headings outside of code fences, from offset `start`."""
    fence = ""
    before: tuple[int, str] | None = None  # a line of plain text that a setext underline would turn into a heading
    for at, line in _lines(text, start):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        elif mark:
            fence, before = mark[1], None
        elif heading := _ATX.match(line):
            before = None
            if heading[2]:
                yield Heading(level=len(heading[1]), title=_plain(heading[2]), start=at)
        elif before and (rule := _SETEXT.match(line)):
            yield Heading(level=1 if rule[1][0] == "=" else 2, title=_plain(before[1]), start=before[0])
            before = None
        else:
            is_text = line.strip() and not line.startswith(("    ", "\t", ">", "|", "- ", "* ", "+ ", "<"))
            before = (before or (at, line)) if is_text else None


def rst_headings(text: str) -> Iterator[Heading]:
    """Find section titles: a line, a rule of one character at least as long, perhaps a rule above."""
    styles: list[tuple[str, bool]] = []
    lines = list(_lines(text, 0))
    for i in range(1, len(lines)):
        (at, title), (_, under) = lines[i - 1], lines[i]
        if not title.strip() or not _RST_RULE.match(under) or _RST_RULE.match(title):
            continue
        if len(under.rstrip()) < len(title.strip()) or (title[0].isspace() and i < 2):
            continue
        above = lines[i - 2] if i >= 2 else (at, "")
        has_rule_above = bool(_RST_RULE.match(above[1])) and above[1].rstrip() == under.rstrip()
        if not has_rule_above and (above[1].strip() or title[0].isspace()):
            continue  # a row of a simple table, or a quoted example
        style = (under[0], has_rule_above)
        if style not in styles:
            styles.append(style)
        yield Heading(level=styles.index(style) + 1, title=title.strip(), start=above[0] if has_rule_above else at)


def _document(file: SourceFile, title: str, *, format: str = "text") -> Document:
    decoded = decode(file.path.read_bytes())
    return Document(
        name=file.name, source=file.name, title=title, text=decoded.text, notes=decoded.notes, format=format
    )


def _titled(document: Document, headings: tuple[Heading, ...], title: str) -> Document:
    first = headings[0] if headings and headings[0].level == 1 else None
    found = title or (first.title if first else "") or stem(document.name)
    return replace(document, title=found, headings=headings)


def _front_matter_end(text: str) -> int:
    """Offset behind a YAML block between two `---` lines at the very top, or 0."""
    match = re.match(r"---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*$\n?", text[:20_000], re.MULTILINE | re.DOTALL)
    return match.end() if match else 0


def _plain(markup: str) -> str:
    """A heading without links and emphasis."""
    return re.sub(r"[*`]|(?<!\w)_+|_+(?!\w)", "", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", markup)).strip()


def _lines(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Offset and content of each line; only `\\n` ends a line."""
    for line in text[start:].split("\n"):
        yield start, line
        start += len(line) + 1
