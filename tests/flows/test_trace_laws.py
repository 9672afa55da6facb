"""What `check_laws` refuses: an answer that is not what its extraction says."""

from __future__ import annotations

import msgspec
import pytest

import traces
from laws import check_laws

FINISHED = [name for name in traces.ALL if name != "failed"]


@pytest.mark.parametrize("name", FINISHED)
@pytest.mark.parametrize("change", ["x{}", "{} ", "{}."])
def test_an_answer_that_the_stream_does_not_hold_breaks_a_law(name, change):
    *events, end = traces.ALL[name]()
    with pytest.raises(AssertionError, match="the answer is its stated extraction"):
        check_laws([*events, msgspec.structs.replace(end, answer=change.format(end.answer))])


@pytest.mark.parametrize(
    ("name", "extraction"),
    [("skipped", "whole"), ("skipped", "none"), ("retrieved", "draft"), ("cited", "whole"), ("unanswered", "whole")],
)
def test_an_extraction_that_gives_another_text_breaks_a_law(name, extraction):
    *events, end = traces.ALL[name]()
    with pytest.raises(AssertionError, match="the answer is its stated extraction"):
        check_laws([*events, msgspec.structs.replace(end, extraction=extraction)])


def test_of_two_calls_of_a_phase_the_last_one_is_the_answer():
    call = traces.written("draft", " first", " try")
    again = traces.written("draft", " 10", " pm ")
    traces.stamped([traces.started(), *call, *again, traces.finished("10 pm", "draft")])
    with pytest.raises(AssertionError, match="the answer is its stated extraction"):
        traces.stamped([traces.started(), *again, *call, traces.finished("10 pm", "draft")])
