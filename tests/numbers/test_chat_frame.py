"""Chat templates cut at the user's text, on templates small enough to read."""

from __future__ import annotations

import pytest

from adaptrag_cli.models.chat import ChatFrame, _starts_pattern, chat_frame, clean_text

TURN = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}"


def test_what_stands_before_and_after_the_user():
    template = TURN + "{% if add_generation_prompt %}[assistant]{% endif %}"
    assert chat_frame(template, eos_token="</s>") == ChatFrame(before="[user]", after="</s>[assistant]")


def test_bos_is_left_to_the_tokenizer():
    assert chat_frame("{{ bos_token }}" + TURN, eos_token="").before == "[user]"


@pytest.mark.parametrize("date", ["{{ strftime_now('%d %b %Y') }}", "{{ date_string }}"])
def test_the_date_is_always_the_same(date: str):
    assert chat_frame(date + TURN, eos_token="").before == "01 Jan 2025[user]"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ messages[0].content }}{{ messages[0].content }}", "prints the user's text 2 times"),
        ("no text at all", "prints the user's text 0 times"),
        ("{{ raise_exception('system turn needed') }}", "ValueError: system turn needed"),
        ("{% if %}", "TemplateSyntaxError"),
        ("{{ messages[0].content.__class__.__mro__ }}", "SecurityError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
    ],
)
def test_a_template_that_cannot_be_used_says_why(template: str, reason: str):
    with pytest.raises(ValueError, match=reason):
        chat_frame(template, eos_token="")


def test_every_start_of_a_user_defined_token_is_found():
    pattern = _starts_pattern(["<a>", "<a><b>", "<b>", "x", "\n\n"])
    assert pattern is not None
    assert [match.start() for match in pattern.finditer("<<a><b>x\n\n<a")] == [1, 4]
    assert _starts_pattern(["\n\n", "x"]) is None


def test_lone_surrogates_become_replacement_marks():
    assert clean_text("a\ud83db 😀") == "a\ufffdb 😀"
