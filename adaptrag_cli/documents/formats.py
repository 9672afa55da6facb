"""The table of formats: which function reads a file, told by its suffix or its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

_HERE = "adaptrag_cli.documents"


@dataclass(frozen=True, kw_only=True)
class Format:
    """How files of one kind are read."""

    name: str
    """As it stands in reports: `PDF`, `Markdown`, `source code`."""
    loader: str
    """`module:function`; takes a `SourceFile`, returns a `Document` (or an iterator, see `many`)."""
    isolated: bool = False
    """Read by a native parser, therefore in a child process that can be killed."""
    many: bool = False
    """One file gives many documents."""


_PLAIN = Format(name="text", loader=f"{_HERE}.text:load_plain")
_CODE = Format(name="source code", loader=f"{_HERE}.text:load_code")
_MARKDOWN = Format(name="Markdown", loader=f"{_HERE}.text:load_markdown")
_RST = Format(name="reStructuredText", loader=f"{_HERE}.text:load_rst")
_HTML = Format(name="HTML", loader=f"{_HERE}.web:load_html", isolated=True)
_PDF = Format(name="PDF", loader=f"{_HERE}.pdf:load_pdf", isolated=True)
_DOCX = Format(name="DOCX", loader=f"{_HERE}.office:load_docx", isolated=True)
_PPTX = Format(name="PPTX", loader=f"{_HERE}.slides:load_pptx", isolated=True)
_EPUB = Format(name="EPUB", loader=f"{_HERE}.ebook:load_epub", isolated=True)
_NOTEBOOK = Format(name="notebook", loader=f"{_HERE}.notebook:load_notebook")
_TABLE = Format(name="table", loader=f"{_HERE}.tabular:load_table")
_JSON = Format(name="JSON", loader=f"{_HERE}.tabular:load_json")
_JSONL = Format(name="JSONL", loader=f"{_HERE}.tabular:load_jsonl", many=True)

_SUFFIXES: tuple[tuple[Format, str], ...] = (
    (_PLAIN, "txt text log org adoc asciidoc tex srt vtt"),
    (_MARKDOWN, "md markdown mdown mkd mdx qmd"),
    (_RST, "rst rest"),
    (_HTML, "html htm xhtml"),
    (_PDF, "pdf"),
    (_DOCX, "docx"),
    (_PPTX, "pptx"),
    (_EPUB, "epub"),
    (_NOTEBOOK, "ipynb"),
    (_TABLE, "csv tsv"),
    (_JSON, "json"),
    (_JSONL, "jsonl ndjson"),
    (
        _CODE,
        "py pyi pyx js mjs cjs jsx ts tsx java kt kts scala groovy gradle c h cc cpp cxx hh hpp hxx m mm cs fs go rs "
        "rb php swift dart lua pl pm r jl hs ml mli ex exs erl hrl clj cljs lisp el scm vim sh bash zsh fish ps1 bat "
        "cmd sql graphql proto css scss sass less vue svelte toml yaml yml ini cfg conf properties xml cmake tf nix "
        "mk make dockerfile diff patch",
    ),
)

_NAMES: tuple[tuple[Format, str], ...] = (
    (
        _PLAIN,
        "readme license licence copying notice authors contributors changelog changes news todo copyright install",
    ),
    (_CODE, "makefile dockerfile rakefile gemfile procfile vagrantfile justfile jenkinsfile"),
)

SUPPORTED_SUFFIXES: Mapping[str, Format] = {
    f".{suffix}": form for form, suffixes in _SUFFIXES for suffix in suffixes.split()
}
"""Lower-case suffix with its dot, and the format."""

SUPPORTED_NAMES: Mapping[str, Format] = {name: form for form, names in _NAMES for name in names.split()}
"""Lower-case names of files that need no suffix."""


def format_of(name: str) -> Format | None:
    """Return the format of a file by its name, or None when it is not supported."""
    path = PurePosixPath(name)
    if path.suffix:
        return SUPPORTED_SUFFIXES.get(path.suffix.lower())
    return SUPPORTED_NAMES.get(path.name.lower())
