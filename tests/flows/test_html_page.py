"""The exported page: what it says, and that no document can add to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

import msgspec
import pytest

import traces
from adaptrag_cli.events import (
    ChunksSelected,
    DecisionMade,
    DraftOdds,
    PathRetrieved,
    PromptBuilt,
    RunFailed,
    RunFinished,
    RunStarted,
    Setting,
    TokenGenerated,
    WarningRaised,
)
from adaptrag_cli.html_figures import gauge, plane
from adaptrag_cli.html_page import html_page
from adaptrag_cli.run_summary import RunSummary, fold

VOID = {"meta"}
HOSTILE = (
    '</script></style></title><script>alert(1)</script><b onclick="x()">bold</b>'
    "' onmouseover=x \"><img src=http://example.org/a.png> &lt; <!-- ]]> \x1b[31m\u202e\ud800"
)
SHOWN = (
    '</script></style></title><script>alert(1)</script><b onclick="x()">bold</b>'
    "' onmouseover=x \"><img src=http://example.org/a.png> &lt; <!-- ]]> \\x1b[31m\\u202e\\ud800"
)


@dataclass
class Node:
    tag: str
    attributes: dict[str, str | None]
    text: str = ""
    """All text inside, in order."""
    children: list[Node] = field(default_factory=list)

    def all(self, tag: str, class_: str | None = None) -> list[Node]:
        here = [n for n in self.children if n.tag == tag and class_ in (None, n.attributes.get("class"))]
        return [*here, *(found for child in self.children for found in child.all(tag, class_))]


class Tree(HTMLParser):
    """Builds the page's tree, and fails where a tag does not close in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.comments: list[str] = []
        self._open = [self.root]
        self.feed(page)
        self.close()
        assert self._open == [self.root], "every tag closes"

    def handle_starttag(self, tag, attrs):
        node = Node(tag, dict(attrs))
        self._open[-1].children.append(node)
        self.tags.add(tag)
        self.attributes.update((tag, name) for name, _ in attrs)
        if tag not in VOID:
            self._open.append(node)

    def handle_endtag(self, tag):
        assert self._open.pop().tag == tag, "tags close in order"

    def handle_data(self, data):
        for node in self._open:
            node.text += data

    def handle_comment(self, data):
        self.comments.append(data)


def tree(run: RunSummary, **options: RunSummary) -> Tree:
    return Tree(html_page(run, **options))


def section(page: Tree, title: str) -> Node:
    return next(s for s in page.root.all("section") if s.all("h2")[0].text.startswith(title))


def hostile() -> RunSummary:
    """A retrieved run in which every text that a person, a model or a document wrote is hostile."""
    replace = msgspec.structs.replace
    events = []
    for event in traces.retrieved():
        match event:
            case RunStarted():
                settings = (Setting(name=HOSTILE, value=HOSTILE, origin=HOSTILE),)
                event = replace(
                    event, query=HOSTILE, model=HOSTILE, index=HOSTILE, gpu_reason=HOSTILE, settings=settings
                )
            case PromptBuilt():
                event = replace(event, text=HOSTILE)
            case TokenGenerated():
                others = tuple(replace(a, text=HOSTILE) for a in event.alternatives)
                event = replace(event, text=HOSTILE, alternatives=others)
            case PathRetrieved():
                chunks = tuple(replace(c, location=HOSTILE, title=HOSTILE, text=HOSTILE) for c in event.chunks)
                event = replace(event, retriever=HOSTILE, chunks=chunks)
            case ChunksSelected():
                chunks = tuple(replace(c, location=HOSTILE, title=HOSTILE, text=HOSTILE) for c in event.candidates)
                event = replace(event, candidates=chunks, score_name=HOSTILE)
            case WarningRaised():
                event = replace(event, message=HOSTILE)
            case RunFinished():
                event = replace(event, answer=HOSTILE)
        events.append(event)
    return fold(events)


def test_no_text_of_a_run_becomes_a_tag_an_attribute_or_a_comment():
    plain, page = tree(fold(traces.retrieved())), tree(hostile())
    assert page.tags == plain.tags
    assert page.attributes == plain.attributes
    assert page.comments == []
    assert page.root.all("h1")[0].text == SHOWN
    assert page.root.all("title")[0].text == SHOWN
    assert page.root.all("p", "answer")[0].text == SHOWN
    assert [pre.text for pre in page.root.all("pre")] == [SHOWN] * 3
    assert page.root.all("p", "warning")[0].text == f"warning: {SHOWN}"
    assert SHOWN in page.root.all("div", "tokens")[0].all("span")[1].attributes["title"]


@pytest.mark.parametrize("name", traces.ALL)
def test_a_page_holds_no_script_and_fetches_nothing(name):
    page = html_page(fold(traces.ALL[name]()))
    read = Tree(page)
    assert page.startswith("<!doctype html>\n<html><head><meta charset=")
    assert not read.tags & {"script", "link", "img", "iframe", "a", "form", "object", "base"}
    assert not {name for _, name in read.attributes} & {"src", "href", "srcset", "action", "data"}
    assert not [name for _, name in read.attributes if name.startswith("on")]
    assert "url(" not in page and "@import" not in page
    policy = next(m for m in read.root.all("meta") if m.attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy.attributes["content"] == (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )


def test_a_retrieved_run_tells_answer_sources_and_verdict_once():
    page = tree(fold(traces.retrieved()))
    verdict = "looked it up: u = 0.57 > 0.30 (dtr, dense, 2 of 3 chunks) - 2.3 s"
    assert page.root.text.count(verdict) == 1
    answer = section(page, "Answer")
    assert answer.all("p", "answer")[0].text == "21:30"
    assert [line.text for line in answer.all("summary")] == [
        "[1] handbook.md:11-19  (s1 0.80, s2 0.96, AIS 0.60)",
        "[2] handbook.md:21-29  (s1 0.60, s2 1.00, AIS 0.60)",
    ]
    assert [text.text for text in answer.all("blockquote")] == [
        "Text of chunk 1: quiet time starts at 21:30.",
        "Text of chunk 2: quiet time starts at 22:30.",
    ]


def test_a_page_says_why_there_is_no_answer():
    answer = section(tree(fold(traces.unanswered())), "Answer")
    assert [line.text for line in answer.all("p") + answer.all("summary")] == [
        "The documents do not tell.",
        "no answer in the documents: the answer is a guess: u = 1.20 > 0.80",
        "the guess was: 21:30",
        "Handbook > House rules",
        "looked at [1] handbook.md:11-19  (s1 0.80)",
    ]


def test_a_failed_run_tells_message_and_remedy():
    answer = section(tree(fold(traces.failed())), "Answer")
    assert [line.text for line in answer.all("p")] == ["failed: the model broke", "adaptrag doctor"]


@pytest.mark.parametrize("length", range(1, len(traces.retrieved())))
def test_a_run_that_is_not_over_has_a_page(length):
    events = [event for event in traces.retrieved()[:length] if not isinstance(event, RunFailed)]
    answer = section(tree(fold(events)), "Answer")
    assert answer.text == "AnswerThe run was not over when this page was made."


def test_a_token_tells_its_numbers_and_neighbouring_weak_tokens_are_one_span():
    events = traces.skipped()
    entropies = iter([1.25, 0.1])
    events = [
        msgspec.structs.replace(e, entropy=next(entropies)) if isinstance(e, TokenGenerated) else e for e in events
    ]
    weak, sure = tree(fold(events)).root.all("div", "tokens")[0].children
    assert (weak.attributes["class"], weak.text) == ("weak", "10")
    assert (sure.attributes["class"], sure.text) == ("sure", " pm")
    assert weak.children[0].attributes["title"] == (
        '"10": p 0.980, entropy 1.25 nats\ninstead: "At" 0.368  "\\n" 0.125'  # e^-0.02, e^-1
    )


def test_every_shade_has_a_rule_for_light_and_one_for_dark():
    page = tree(fold(traces.skipped()))
    name = page.root.all("div", "tokens")[0].children[0].children[0].attributes["class"]
    light, dark = page.root.all("style")[0].text.rsplit("@media (prefers-color-scheme: dark)", 1)
    assert light.count(f".{name} {{ background: #") == 1
    assert dark.count(f".{name} {{ background: #") == 1


def test_a_chain_of_thought_strikes_through_what_was_discarded_and_numbers_the_look_ups():
    page = tree(fold(traces.looked_up_twice()))
    text = section(page, "Chain of thought").all("div", "tokens")[0]
    assert text.text == (
        "Quiet time starts at 22:00.1 21:30. The quiet ends at 6:00, before breakfast.2 7:00."
        " That is nine and a half hours"
    )
    assert [cut.text for cut in text.all("s")] == [" 22:00.", " 6:00, before breakfast."]
    assert [cut.attributes["title"] for cut in text.all("s")] == [
        'entropy turns sharply upwards at "22:00"',
        'entropy turns sharply upwards at "6:00"',
    ]
    assert [mark.text for mark in text.all("span", "mark")] == ["1", "2"]
    rows = section(page, "Chain of thought").all("tbody")[0].all("tr")
    assert [cell.text for cell in rows[3].all("td")] == (
        ["1", "22:00", "2.300", "1.900", "1.700", "", "1.620", "1.00", "looked up"]
    )
    assert not any(s.all("h2")[0].text == "Draft" for s in page.root.all("section"))


def test_steps_stand_in_rows_with_decision_chunks_and_answer():
    page = tree(fold(traces.asked_in_steps()))
    rows = section(page, "Steps").all("tbody")[0].all("tr")
    assert [[cell.text for cell in row.all("td")] for row in rows] == [
        [
            "1",
            "When is quiet time?",
            "the model searches (log-odds +1.25)",
            "handbook.md:11-19, handbook.md:31-39",
            "21:30",
        ],
        ["2", "Who wakes us?", "the model answers from memory (log-odds -2.00)", "", "the rooster"],
        ["3", "when is quiet time", "asked before", "", ""],
    ]
    assert not any(s.all("h2")[0].text == "Draft" for s in page.root.all("section"))


def test_each_look_up_tells_its_query_with_the_words_shaded_by_weight():
    page = tree(fold(traces.looked_up_twice()))
    paths = section(page, "Paths")
    assert [head.text for head in paths.all("h3")] == [
        'Look-up 1 of 2: entropy turns sharply upwards at "22:00"',
        'Look-up 2 of 2: entropy turns sharply upwards at "6:00"',
    ]
    words = [span for span in paths.all("span") if span.attributes.get("class", "").startswith("word")]
    assert [word.text for word in words] == ["quiet", "time", "starts", "quiet", "ends"]
    assert words[0].attributes["title"] == "weight 0.410"
    assert words[0].attributes["class"] == words[4].attributes["class"]  # the heaviest of each query
    assert [line.text for line in paths.all("summary")] == [
        "1. handbook.md:11-19  9.500",
        "2. handbook.md:31-39  7.250",
        "1. handbook.md:21-29  8.000",
        "2. handbook.md:11-19  4.500",
    ]
    assert [line.text for line in section(page, "Prompts").all("summary")][:2] == ["reasoning: 90 tokens"] * 2


def test_what_is_held_against_a_threshold_word_by_word_has_no_gauge_of_a_draft():
    page = tree(fold(traces.looked_up_twice()))
    assert section(page, "Decision").all("svg") == []
    assert section(page, "Decision").all("p", "verdict")[0].text.startswith("looked up 2 times while writing: at")


def test_chunks_of_both_paths_are_marked_in_both_columns():
    events = [
        msgspec.structs.replace(e, chunks=(traces.ranked(1, 1, 0.9), traces.ranked(2, 2, 0.8)))
        if isinstance(e, PathRetrieved) and e.path == "pseudo_context"
        else e
        for e in traces.retrieved()
    ]
    columns = section(tree(fold(events)), "Paths").all("div", "paths")[0].children
    assert [[line.text for line in column.all("summary")] for column in columns] == [
        ["1. handbook.md:11-19  0.800 both", "2. handbook.md:31-39  0.600"],
        ["1. handbook.md:11-19  0.900 both", "2. handbook.md:21-29  0.800"],
    ]


def test_what_would_have_been_looked_up_is_labelled():
    page = tree(fold(traces.skipped()), unconsulted=fold(traces.retrieved()))
    assert section(page, "Paths").all("h2")[0].text == "Paths not consulted"
    assert section(page, "Selection").all("h2")[0].text == "Selection not consulted"
    assert len(section(page, "Selection").all("circle")) == 3
    own = tree(fold(traces.retrieved()), unconsulted=fold(traces.always()))
    assert section(own, "Paths").all("h2")[0].text == "Paths"


def test_odds_of_the_draft_are_told():
    odds = DraftOdds(above=0.3, up_to=0.6, right=4, drafts=18)
    events = [
        msgspec.structs.replace(e, draft_odds=odds) if isinstance(e, DecisionMade) else e for e in traces.retrieved()
    ]
    assert "of 18 measured drafts with u in 0.30-0.60, 4 were right (22 %)" in tree(fold(events)).root.text


def selection(**changes: object) -> ChunksSelected:
    chosen = fold(traces.retrieved()).selection
    assert chosen is not None
    return msgspec.structs.replace(chosen, **changes)


def test_a_candidate_stands_at_its_part_in_the_plane():
    picture = plane(selection())
    assert picture is not None
    # cos theta0 = 0.6, sin theta0 = 0.8; 440 units are 1:
    # (0.8, 0.96) -> (0.8, (0.96 - 0.48) / 0.8 = 0.6); (0.6, 1) -> (0.6, 0.8) = p; (0.6, 0.8) -> (0.6, 0.55)
    dots = [(c.get("cx"), c.get("cy"), c.get("class")) for c in picture.iter("circle")]
    assert dots == [("352", "-264", "kept"), ("264", "-352", "kept"), ("264", "-242", "left")]
    ends = [(line.get("x2"), line.get("y2")) for line in picture.iter("line")]
    assert ends == [("440", "0"), ("264", "-352")]
    assert [text.text for text in picture.iter("text")] == ["question", "pseudo-context", "theta0 53.1°", "1", "2", "3"]


@pytest.mark.parametrize("similarity", [None, 1.0, -1.0, 0.9999999])
def test_one_direction_spans_no_plane(similarity):
    assert plane(selection(query_pseudo_similarity=similarity)) is None


def test_the_gauge_holds_u_against_the_threshold():
    # The scale ends at max(2 x 0.3, 1.1 x 0.57, 1) = 1, which is 640 units.
    drawn = gauge(0.57, 0.3)
    assert [rect.get("width") for rect in drawn.iter("rect")] == ["640", "364.8"]
    assert [line.get("x1") for line in drawn.iter("line")] == ["192"]
    assert [text.text for text in drawn.iter("text")] == ["u = 0.57", "threshold 0.30", "1.00 nats"]
    assert [text.text for text in gauge(0.5, None).iter("text")] == ["u = 0.50", "1.00 nats"]
