"""Which chunk a sentence may cite: its names and numbers must stand there."""

import pytest

from adaptrag_cli.citations import cited_chunks
from adaptrag_cli.words import split_sentences, words

LAMP = "The harbour lamp at Skarvik burns whale-green and was lit in 1887 by Ottilie Brandt."
FEE = "The mooring fee is 1,500 crowns a season; members of the guild pay half."


def test_names_and_numbers_must_all_stand_in_the_chunk():
    assert cited_chunks("It was lit in 1887 by Ottilie Brandt.", [FEE, LAMP]) == (1,)
    assert cited_chunks("It was lit in 1888 by Ottilie Brandt.", [FEE, LAMP]) == ()
    assert cited_chunks("It was lit in 1887 by Ottilie Brand.", [FEE, LAMP]) == ()


def test_a_number_keeps_its_inner_punctuation():
    assert cited_chunks("The fee is 1,500 crowns.", [FEE]) == (0,)
    assert cited_chunks("The fee is 500 crowns.", [FEE]) == ()


def test_a_sentence_spread_over_two_chunks_cites_neither():
    assert cited_chunks("Ottilie Brandt paid 1,500 crowns.", [LAMP, FEE]) == ()


def test_without_names_the_content_words_decide():
    assert cited_chunks("Members of the guild pay half.", [LAMP, FEE]) == (1,)
    assert cited_chunks("Visitors may sleep on the pier.", [LAMP, FEE]) == ()


def test_the_first_word_is_a_name_unless_a_chunk_writes_it_in_lower_case():
    assert cited_chunks("Mooring fee for members is half.", [FEE]) == (0,)
    fair = "Lyon hosts the annual winter festival."
    assert cited_chunks("Lyon hosts the annual winter festival.", [fair]) == (0,)
    assert cited_chunks("Paris hosts the annual winter festival.", [fair]) == ()


def test_number_words_are_numbers():
    rolls = "On Mondays the bakehouse sends twelve rolls and 21 loaves to the pier."
    assert cited_chunks("The bakehouse sends twelve rolls to the pier.", [rolls]) == (0,)
    assert cited_chunks("The bakehouse sends 12 rolls and twenty-one loaves to the pier.", [rolls]) == (0,)
    assert cited_chunks("The bakehouse sends thirteen rolls to the pier.", [rolls]) == ()
    assert cited_chunks("The bakehouse sends a dozen rolls to the pier.", [rolls]) == ()


def test_nothing_to_claim_cites_nothing():
    assert cited_chunks("It is so.", [LAMP]) == ()
    assert cited_chunks("", [LAMP]) == ()


def test_the_model_writing_a_marker_itself_proves_nothing():
    assert cited_chunks("Visitors may sleep on the pier [1].", [LAMP]) == ()


def test_possessives_and_case_do_not_count():
    assert cited_chunks("The lamp of Skarvik's harbour burns.", [LAMP.upper()]) == (0,)


@pytest.mark.parametrize(
    "text",
    [
        "Dr. J. R. R. Tolkien wrote it in 1937. It sold well, e.g. in the U.S. by mail. See No. 7!",
        "",
        "no end",
        "A. B? C!\n\nD",
    ],
)
def test_sentences_join_to_the_text(text):
    assert "".join(split_sentences(text)) == text


def test_abbreviations_and_initials_stay_together():
    assert len(split_sentences("Dr. J. R. R. Tolkien wrote it in 1937. It sold well, e.g. in the U.S. by mail.")) == 2


def test_words_keep_inner_punctuation():
    assert words("Saint-Malo paid 1,500.50, v2.1 (and 24/7)!") == [
        "Saint-Malo",
        "paid",
        "1,500.50",
        "v2.1",
        "and",
        "24/7",
    ]
