"""Question files are known by their content, and give exactly the questions, answers, passages and gold they hold."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from adaptrag_cli.documents.folder import SourceFile
from adaptrag_cli.documents.tabular import load_jsonl
from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.formats.reading import load_questions
from adaptrag_cli.evaluation.questions import Question, QuestionSet, passage_id, write_corpus

SETS = Path(__file__).parent.parent / "data" / "question_sets"
FILES = {
    "adaptrag.jsonl": "adaptrag",
    "hotpotqa.json": "hotpotqa",
    "2wikimultihopqa/dev.json": "2wikimultihopqa",
    "musique.jsonl": "musique",
    "squad.json": "squad",
    "nq_open.jsonl": "nq-open",
    "triviaqa.json": "triviaqa",
    "webquestions.json": "webquestions",
    "popqa.tsv": "popqa",
    "strategyqa/strategyqa_train.json": "strategyqa",
    "iirc.json": "iirc",
    "pubmedqa.json": "pubmedqa",
    "bioasq.json": "bioasq",
    "cag_time.json": "cag",
    "cag_news.json": "cag",
}


def load(name: str) -> QuestionSet:
    return load_questions(SETS / name)


def texts(question_set: QuestionSet) -> list[tuple[str, str]]:
    return [(passage.title, passage.text) for passage in question_set.passages]


def gold(question_set: QuestionSet, question: Question) -> list[str]:
    """Texts of the gold passages; an id that no passage has shows as itself."""
    by_id = {passage.id: passage.text for passage in question_set.passages}
    return [by_id.get(identifier, identifier) for identifier in question.gold_ids]


def written(tmp_path: Path, content: object, name: str = "set.json") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def refused(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_questions(path)
    assert caught.value.hint
    return caught.value


# Formats


def test_our_own_format():
    found = load("adaptrag.jsonl")
    assert found.questions == (
        Question(
            id="lamp-1",
            text="When was the lamp of Ketterby lit?",
            answers=("1871", "in 1871"),
            gold_ids=("lamp",),
            gold_sets=(("lamp",), ("log", "keeper")),
            meta={"type": "date", "hops": 1},  # neither lists nor the text that tells the answer
        ),
        Question(id="2", text="Who kept it?", answers=("Ada Thorne",), own_passages=("lamp", "keeper")),
    )
    assert (found.name, found.passages, found.notes) == ("adaptrag", (), ())


def test_hotpotqa():
    found = load("hotpotqa.json")
    bridge, comparison = found.questions
    assert texts(found) == [
        ("Tarn Beck", "Tarn Beck is a river in Westmere. It is crossed by the Hollow Bridge."),
        ("Hollow Bridge", "The Hollow Bridge is made of oak. It was designed by Orla Finn."),
        ("Westmere", "Westmere is a county."),  # once, though two questions bring it
    ]
    assert (bridge.id, bridge.text) == (
        "5a00000000000000000000a1",
        "Who designed the bridge that crosses the river Tarn Beck?",
    )
    assert bridge.answers == ("Orla Finn",)
    assert bridge.gold_ids == tuple(passage.id for passage in found.passages[:2])
    assert bridge.meta == {"type": "bridge", "level": "hard"}
    # The file lacks a supporting paragraph: it stays gold, so recall is at most a half.
    assert comparison.gold_ids == (found.passages[2].id, passage_id("Eastmere", ""))
    assert (comparison.answers, comparison.own_passages) == (("no",), ())


def test_outer_spaces_of_a_title_do_not_lose_its_gold(tmp_path):
    content = json.loads((SETS / "hotpotqa.json").read_text("utf-8"))
    for paragraph in content[0]["context"]:
        paragraph[0] = f" {paragraph[0]} "
    found = load_questions(written(tmp_path, content))
    assert found.questions[0].gold_ids == load("hotpotqa.json").questions[0].gold_ids


def test_2wikimultihopqa_knows_other_names_of_an_answer():
    found = load("2wikimultihopqa/dev.json")
    inference, comparison = found.questions
    assert inference.answers == ("Lorvania", "Republic of Lorvania", "Lorvanian")
    assert comparison.answers == ("no",)
    assert gold(found, inference) == [
        "The Quiet Quay is a 1933 film directed by Ines Calder.",
        "Ines Calder was born in Lorvania. She made nine films.",
    ]
    assert inference.meta == {"type": "compositional"}
    assert (found.name, found.notes) == ("2wikimultihopqa-dev", ())


def test_2wikimultihopqa_without_the_file_of_names_says_so(tmp_path):
    path = tmp_path / "dev.json"
    shutil.copy(SETS / "2wikimultihopqa/dev.json", path)
    found = load_questions(path)
    assert found.questions[0].answers == ("Lorvania",)
    assert found.notes == ("no id_aliases.json beside it: other names of an answer count as wrong",)
    assert found.fingerprint != load("2wikimultihopqa/dev.json").fingerprint  # other answers, another set


def test_musique():
    found = load("musique.jsonl")
    (asked,) = found.questions
    assert (asked.id, asked.text) == ("2hop__11_22", "Where does the river at Pell Mill rise?")
    assert asked.answers == ("Cold Tor", "Coldtor")
    assert gold(found, asked) == ["Pell Mill stands on the Arden.", "The Arden rises at Cold Tor."]
    assert asked.meta == {"type": "2hop", "hops": 2}
    assert texts(found) == [
        ("Pell Mill", "Pell Mill stands on the Arden."),
        ("Arden", "The Arden rises at Cold Tor."),
        ("Arden", "Arden is also a name."),  # titles repeat
        ("Cold Tor", "Cold Tor is 611 m high."),
    ]
    assert found.notes == ("1 left out: unanswerable",)


def test_squad():
    found = load("squad.json")
    first, second = found.questions
    assert (first.id, first.text) == ("56be0000000000000000c001", "How long did carts take?")
    assert (first.answers, second.answers) == (("four days", "four"), ("two",))
    assert texts(found) == [
        ("Salt road", "The salt road ran from Lind to Abern. Carts took four days."),
        ("Salt road", "Abern had two gates."),
    ]
    assert [gold(found, question) for question in found.questions] == [
        ["The salt road ran from Lind to Abern. Carts took four days."],
        ["Abern had two gates."],
    ]
    assert found.notes == ("1 left out: unanswerable",)


def test_nq_open():
    assert load("nq_open.jsonl").questions == (
        Question(id="1", text="who wrote the ballad of the tin king", answers=("Mab Orrin", "M. Orrin")),
        Question(id="2", text="when did the tin king open", answers=("1902",)),
    )


def test_triviaqa_answers_are_aliases():
    assert load("triviaqa.json").questions == (
        Question(
            id="tc_1",
            text="Which bird is on the arms of Lind?",
            answers=("Grey Heron", "The Heron", "Heron, grey"),
            meta={"type": "WikipediaEntity"},
        ),
        Question(id="tc_2", text="In which year did Lind burn?", answers=("1066",), meta={"type": "Numerical"}),
    )


def test_a_triviaqa_value_counts_only_without_aliases(tmp_path):
    content = json.loads((SETS / "triviaqa.json").read_text("utf-8"))
    content["Data"][0]["Answer"] |= {"Value": "A stork"}
    content["Data"][1]["Answer"] |= {"Aliases": [], "Value": "1067"}
    found = load_questions(written(tmp_path, content))
    assert [q.answers for q in found.questions] == [("Grey Heron", "The Heron", "Heron, grey"), ("1067",)]


def test_a_verified_triviaqa_file_asks_its_verified_questions(tmp_path):
    content = json.loads((SETS / "triviaqa.json").read_text("utf-8")) | {"VerifiedEval": True}
    found = load_questions(written(tmp_path, content))
    assert [question.id for question in found.questions] == ["tc_1"]
    assert found.notes == ("1 left out: not verified",)


def test_webquestions():
    assert load("webquestions.json").questions == (
        Question(id="1", text="what money is used in lorvania?", answers=("Lorvanian crown", "Ducat")),
        Question(id="2", text="what did mab orrin write?", answers=('The "Tin" King (1902)', "300", "Ann's Ark")),
    )


@pytest.mark.parametrize("value", ["Ducat", "(list (description Ducat", "(list (name Ducat))", "(list Ducat)"])
def test_webquestions_with_other_answers_are_refused(tmp_path, value):
    error = refused(written(tmp_path, [{"utterance": "what money?", "targetValue": value}]))
    assert error.message.endswith(
        "looks like webquestions, but not at question 1: 'targetValue' is not a list of descriptions"
    )


def test_popqa():
    assert load("popqa.tsv").questions == (
        Question(
            id="7001",
            text="What is Nan Voss's occupation?",
            answers=("climber", "mountaineer"),
            meta={"prop": "occupation", "subj": "Nan Voss", "s_pop": 142, "o_pop": 25692},
        ),
        Question(
            id="7002",
            text="What is Lind the capital of?",
            answers=("Westmere",),
            meta={"prop": "capital of", "subj": "Lind", "s_pop": 90, "o_pop": 11},
        ),
    )


def test_popqa_in_csv_and_json_lines_is_the_same(tmp_path):
    with (SETS / "popqa.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    table = tmp_path / "table"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    lines = "\n".join(json.dumps(row | {"possible_answers": json.loads(row["possible_answers"])}) for row in rows)
    expected = load("popqa.tsv").questions
    assert load_questions(table).questions == expected
    assert load_questions(written(tmp_path, lines)).questions == expected


def test_strategyqa():
    found = load("strategyqa/strategyqa_train.json")
    heron, bridge = found.questions
    beck, first, second = (passage.id for passage in found.passages)
    assert (heron.id, heron.text, heron.answers) == (
        "b100",
        "Could a heron stand in Tarn Beck without swimming?",
        ("yes",),
    )
    assert (bridge.answers, bridge.gold_ids, bridge.gold_sets) == (("no",), (), ())
    # One set for each annotator; the third names a paragraph that is not there.
    assert heron.gold_sets == ((beck, first, second), (beck, first))
    assert heron.gold_ids == (beck, first, second)
    assert (heron.meta, bridge.meta) == ({"hops": 3}, {"hops": 2})
    assert texts(found) == [
        ("Tarn Beck", "The beck is a foot deep."),
        ("Heron", "Herons are tall birds."),
        ("Heron", "Their legs are two feet long."),
    ]


def test_strategyqa_without_its_paragraphs_has_no_gold(tmp_path):
    path = tmp_path / "strategyqa_train.json"
    shutil.copy(SETS / "strategyqa/strategyqa_train.json", path)
    found = load_questions(path)
    assert [(q.answers, q.gold_ids, q.gold_sets) for q in found.questions] == [(("yes",), (), ()), (("no",), (), ())]
    assert found.passages == ()
    assert found.notes == ("no strategyqa_train_paragraphs.json beside it: no corpus and no gold evidence",)


def test_iirc():
    found = load("iirc.json")
    value, spans, binary = found.questions
    assert (value.id, value.answers) == ("q_0", ("12", "12 years"))
    assert (spans.id, spans.answers) == ("q_1", ("red, ochre",))  # both together are the answer
    assert (binary.id, binary.answers) == ("p_0-3", ("yes",))
    assert [question.meta["type"] for question in found.questions] == ["value", "span", "binary"]
    assert gold(found, value) == [
        "Lind Rovers play at the Kiln. They beat Abern in 1931.",
        "Abern F.C. was founded in 1919.",
    ]
    assert gold(found, spans) == ["Its walls are red and ochre."]
    assert binary.gold_ids == ()
    assert [title for title, _ in texts(found)] == ["Lind Rovers", "abern f.c.", "the kiln"]
    assert found.notes == (
        "the corpus holds passages and annotated snippets only, not the linked articles",
        "1 left out: unanswerable",
        "1 left out: marked as bad",
    )


def test_pubmedqa_keeps_the_conclusion_out_of_the_corpus():
    found = load("pubmedqa.json")
    tea, height = found.questions
    assert (tea.id, tea.text, tea.answers) == ("90000001", "Does birch tea shorten a cold?", ("no",))
    assert (height.answers, height.meta, tea.meta) == (("maybe",), {}, {"year": "2009"})
    assert texts(found) == [
        ("", "Colds are common.\nSixty adults drank birch tea.\nColds lasted 6.1 and 6.2 days."),
        ("", "Forty people whistled."),
    ]
    assert [question.gold_ids for question in found.questions] == [(passage.id,) for passage in found.passages]


def test_bioasq():
    found = load("bioasq.json")
    yesno, factoid, items, old = found.questions
    assert (yesno.id, yesno.text, yesno.answers) == ("f001", "Is the lindase gene found in oaks?", ("yes",))
    assert factoid.answers == ("lindase", "LDS", "bark lyase")
    assert items.answers == ("lindase A, lindase B",)
    assert old.answers == ("oak",)
    assert gold(found, yesno) == ["Lindase was found in all oaks."]
    assert gold(found, factoid) == ["Lindase was found in all oaks.", "It breaks down salt bark."]
    assert [question.meta for question in found.questions] == [
        {"type": kind} for kind in ("yesno", "factoid", "list", "factoid")
    ]
    assert [text for _, text in texts(found)] == [
        "Lindase was found in all oaks.",
        "It breaks down salt bark.",
        "Little is known yet.",
    ]
    assert found.notes == ("1 left out: summary questions",)


def test_cag_gives_each_question_its_own_passages():
    found = load("cag_time.json")
    mayor, gates = found.questions
    week, current, fair, one = (passage.id for passage in found.passages)
    assert (mayor.id, mayor.text) == ("1", "Who is the mayor of Lind?")
    assert (mayor.answers, gates.answers) == (("Ada Thorne", "Thorne"), ("one",))
    assert mayor.own_passages == (week, current, fair)
    assert gates.own_passages == (one, fair)  # in the order of its documents; the shared passage is kept once
    assert (mayor.gold_ids, mayor.gold_sets) == ((week, current), ((week,), (current,)))  # either is enough
    assert (mayor.meta, gates.meta) == ({"q_date": "2023/11/17"}, {})
    assert texts(found)[1] == ("Lind", "Its mayor is Ada Thorne.")


def test_cag_about_polluted_news():
    found = load("cag_news.json")
    (asked,) = found.questions
    assert (asked.id, asked.answers) == ("20231103_0", ("Rovers",))
    assert gold(found, asked) == ["The Rovers won the Lind cup."]


def test_cag_as_prompts_is_refused_with_the_reason(tmp_path):
    turns = [{"from": "human", "value": "Question:Who?\nDocs:..."}, {"from": "gpt", "value": "no"}]
    error = refused(written(tmp_path, [{"conversations": turns}]))
    assert "its passages are part of a prompt" in error.message


# Sniffing


@pytest.mark.parametrize("name", FILES)
def test_the_content_tells_the_format_not_the_name(tmp_path, name):
    path = tmp_path / "data.txt"
    shutil.copy(SETS / name, path)
    assert load_questions(path).format == FILES[name]


def reversed_keys(value: object) -> object:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".json")])
def test_the_order_of_keys_does_not_matter(tmp_path, name):
    shutil.copytree((SETS / name).parent, tmp_path / "sets")
    path = tmp_path / "sets" / Path(name).name
    content = json.loads(path.read_text("utf-8"))
    shuffled = content if name == "pubmedqa.json" else reversed_keys(content)  # PubMedQA's outer keys are its questions
    path.write_text(json.dumps(shuffled), "utf-8")
    found, expected = load_questions(path), load(name)
    assert (found.format, found.questions, found.passages) == (expected.format, expected.questions, expected.passages)


@pytest.mark.parametrize("name", [name for name in FILES if (SETS / name).read_bytes().startswith(b"[")])
def test_a_list_as_json_lines_is_the_same(tmp_path, name):
    content = json.loads((SETS / name).read_text("utf-8"))
    shutil.copytree((SETS / name).parent, tmp_path / "sets")
    path = tmp_path / "sets" / Path(name).name
    path.write_text("\n\n".join(json.dumps(record) for record in content), "utf-8")
    assert load_questions(path).questions == load(name).questions


def test_a_packed_file_is_the_same_set(tmp_path):
    path = tmp_path / "hotpotqa.json.gz"
    path.write_bytes(gzip.compress((SETS / "hotpotqa.json").read_bytes()))
    found, expected = load_questions(path), load("hotpotqa.json")
    assert (found.name, found.fingerprint, found.questions) == ("hotpotqa", expected.fingerprint, expected.questions)


def test_a_byte_order_mark_and_windows_line_ends_are_no_matter(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + (SETS / "nq_open.jsonl").read_bytes().replace(b"\n", b"\r\n"))
    assert load_questions(path).questions == load("nq_open.jsonl").questions


# What is left out


def lines(*records: dict[str, object]) -> str:
    return "\n".join(json.dumps(record) for record in records)


def test_questions_that_cannot_be_scored_are_counted(tmp_path):
    path = written(
        tmp_path,
        lines(
            {"id": "a", "question": "Who?", "answers": ["Ada"]},
            {"id": "b", "question": "  ", "answers": ["Ada"]},
            {"id": "c", "question": "When?", "answers": []},
            {"id": "d", "question": "Where?", "answers": ["", " "]},
        ),
    )
    found = load_questions(path)
    assert [question.id for question in found.questions] == ["a"]
    assert found.notes == ("1 left out: without a question", "2 left out: without a gold answer")


def test_questions_of_one_id_are_numbered(tmp_path):
    records = [{"id": name, "question": f"Who is {n}?", "answers": ["x"]} for n, name in enumerate(["a", "a-2", "a"])]
    found = load_questions(written(tmp_path, lines(*records)))
    assert [question.id for question in found.questions] == ["a", "a-2", "a-3"]
    assert found.notes == ("1 with the id of an earlier question got a number",)


def test_lone_surrogates_do_not_reach_the_run(tmp_path):
    path = written(tmp_path, '{"id": "s", "question": "Who is \\ud800?", "answers": ["x\\udfff"]}')
    (asked,) = load_questions(path).questions
    assert (asked.text, asked.answers) == ("Who is \ufffd?", ("x\ufffd",))


def test_lone_surrogates_do_not_reach_facts_and_names(tmp_path):
    content = json.loads((SETS / "hotpotqa.json").read_text("utf-8"))
    content[0]["type"] = "bri\udc00dge"
    path = tmp_path / os.fsdecode(b"caf\xe9.json")
    path.write_text(json.dumps(content), "utf-8")
    found = load_questions(path)
    assert (found.name, found.questions[0].meta["type"]) == ("caf\ufffd", "bri\ufffddge")


def test_a_test_file_without_answers_is_refused(tmp_path):
    content = json.loads((SETS / "hotpotqa.json").read_text("utf-8"))
    for record in content:
        del record["answer"], record["supporting_facts"]
    error = refused(written(tmp_path, content))
    assert error.message.endswith("holds no question that can be scored (2 left out: without a gold answer)")


# Wrong files


@pytest.mark.parametrize("content", ["", "  \n\n"])
def test_an_empty_file(tmp_path, content):
    assert refused(written(tmp_path, content)).message == f"{tmp_path / 'set.json'} is empty"


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ("[]", "no records"),
        ("{}", "an object with nothing"),
        ('{"a": 1, "b": 2}', "an object with 'a', 'b'"),
        ('[{"prompt": "Who?"}]', "records with 'prompt'"),
        ('{"q": 1}\n{"q": 2}', "records with 'q'"),
        ("name,age\nAda,36\n", "records with 'name', 'age'"),
        ('{"data": []}', "an object with 'data'"),
        ('{"90000001": "no"}', "an object with '90000001'"),  # PubMedQA's test_ground_truth.json
        (json.dumps(dict.fromkeys("abcdefghij", 0)), "an object with 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', ..."),
    ],
)
def test_a_file_of_no_known_format_says_what_was_seen(tmp_path, content, seen):
    error = refused(written(tmp_path, content))
    assert error.message == f"{tmp_path / 'set.json'}: of no known format ({seen})"
    assert error.hint.startswith("known are HotpotQA, 2WikiMultihopQA, MuSiQue,")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('[\n {"question": "Who?"},\n {"question": \n]', 4),
        ('{\n "data": [\n  {"title": }\n ]\n}', 3),
        ('{"question": "Who?", "answers": ["x"]}\n\n{"question": "When?', 3),
    ],
)
def test_broken_json_names_its_line(tmp_path, content, line):
    assert refused(written(tmp_path, content)).message.startswith(f"{tmp_path / 'set.json'}:{line}: not valid JSON: ")


def test_broken_lines_are_counted_from_the_first(tmp_path):
    """A file of one line is no document, if its name says that it has lines."""
    path = tmp_path / "set.jsonl"
    for content in ('{"question": "Who?\n', '{"question": "Who?\n{"question": "When?", "answers": ["x"]}\n'):
        path.write_text(content, encoding="utf-8")
        assert refused(path).message.startswith(f"{path}:1: not valid JSON: ")


def test_a_line_that_is_no_object(tmp_path):
    error = refused(written(tmp_path, '{"question": "Who?", "answers": ["x"]}\n["y"]'))
    assert error.message == f"{tmp_path / 'set.json'}:2: not an object"


def test_a_list_with_something_else_in_it(tmp_path):
    error = refused(written(tmp_path, '[{"question": "Who?", "answers": ["x"]}, 7]'))
    assert error.message.endswith("item 2 of the list is not an object")


def test_nesting_without_end(tmp_path):
    assert "not valid JSON" in refused(written(tmp_path, "[" * 200_000)).message


def test_not_utf_8(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_bytes(b'{"question": "Who?", "answers": ["x"]}\n{"question": "Caf\xe9?", "answers": ["y"]}')
    assert refused(path).message == f"{path}:2: not UTF-8"


def test_a_broken_package(tmp_path):
    path = tmp_path / "set.json.gz"
    path.write_bytes(gzip.compress((SETS / "squad.json").read_bytes())[:60])
    assert refused(path).message.startswith(f"{path}: cannot be read: ")
    path.write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + b"\xff" * 40)
    assert refused(path).message.startswith(f"{path}: cannot be read: ")


def test_a_folder_and_a_missing_file(tmp_path):
    assert refused(tmp_path).message == f"{tmp_path} is a folder, not a file"
    assert refused(tmp_path / "none.json").message == f"there is no file {tmp_path / 'none.json'}"


@pytest.mark.parametrize(
    ("name", "old", "new", "what"),
    [
        ("hotpotqa.json", '["Blank page", ["", " "]]', '["Blank page"]', "2: a paragraph of 'context' is not [title,"),
        ("musique.jsonl", '"paragraph_text": "Arden is', '"text": "Arden is', "1: 'paragraph_text' is not a text"),
        ("squad.json", '"id": "56be0000000000000000c003"', '"key": 3', "3: 'id' is missing"),
        ("nq_open.jsonl", '["1902"]', "[1902]", "2: 'answer' holds something that is not a text"),
        ("triviaqa.json", '"Aliases": ["1066"]', '"Names": ["1066"]', "2: 'Aliases' is not a list"),
        ("popqa.tsv", '"[""Westmere""]"', "Westmere", "2: 'possible_answers' is not a JSON list"),
        ("popqa.tsv", "\t90\t", "\tmany\t", "2: 's_pop' is not a number"),
        ("iirc.json", '"type": "binary"', '"type": "choice"', "3: the answer type 'choice' is unknown"),
        ("pubmedqa.json", '["Forty people whistled."]', '"Forty"', "2: 'CONTEXTS' is not a list"),
        ("bioasq.json", '"type": "list"', '"type": "table"', "3: the question type 'table' is unknown"),
        ("cag_time.json", '"text": "Its mayor', '"body": "Its mayor', "1: 'text' is not a text"),
    ],
)
def test_a_wrong_record_is_told_with_its_place(tmp_path, name, old, new, what):
    content = (SETS / name).read_text("utf-8")
    assert content.count(old) == 1
    error = refused(written(tmp_path, content.replace(old, new), name))
    assert f"looks like {FILES[name]}, but not at question {what}" in error.message


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"question": "Who?", "answers": "Ada"}', "'answers' must be a list of texts, such as [\"yes\"]"),
        ('{"question": "Who?", "answers": [3]}', "'answers' must be a list of texts, such as [\"yes\"]"),
        ('{"question": 3, "answers": ["Ada"]}', "'question' must be a text"),
        ('{"question": "Who?", "answer": "Ada"}', "unknown field 'answer'; did you mean 'answers'?"),
        ('{"quetsion": "Who?", "answers": ["Ada"]}', "unknown field 'quetsion'; did you mean 'question'?"),
        ('{"question": "Who?"}', "'answers' is missing"),
    ],
)
@pytest.mark.parametrize("before", [0, 2])
def test_a_wrong_line_of_ours_is_told_with_its_field(tmp_path, before, line, what):
    right = '{"question": "Where?", "answers": ["here"]}\n\n'
    error = refused(path := written(tmp_path, right * before + line, "mine.jsonl"))
    assert error.message == f"{path}:{2 * before + 1}: {what}"
    assert error.hint == 'write each question as {"question": "...", "answers": ["..."]}'


@pytest.mark.parametrize(
    ("folder", "name", "companion", "content", "what"),
    [
        ("2wikimultihopqa", "dev.json", "id_aliases.json", '\n{"id": 1}', "id_aliases.json:2: no entity with Q_id"),
        ("strategyqa", "strategyqa_train.json", "strategyqa_train_paragraphs.json", "[]", "no object of paragraphs"),
        ("strategyqa", "strategyqa_train.json", "strategyqa_train_paragraphs.json", "{", "no object of paragraphs"),
    ],
)
def test_a_wrong_companion_is_told_by_its_name(tmp_path, folder, name, companion, content, what):
    shutil.copytree(SETS / folder, tmp_path / "sets")
    (tmp_path / "sets" / companion).write_text(content, "utf-8")
    error = refused(tmp_path / "sets" / name)
    assert companion in error.message and what in error.message


# Samples and corpora


def many(tmp_path: Path, count: int) -> QuestionSet:
    records = [{"id": str(n), "question": f"What is {n}?", "answers": [str(n)]} for n in range(count)]
    return load_questions(written(tmp_path, lines(*records)))


def test_a_sample_is_the_same_for_the_same_seed(tmp_path):
    found = many(tmp_path, 50)
    ten = found.sample(10, seed=0)
    assert [q.id for q in ten.questions] == [q.id for q in many(tmp_path, 50).sample(10, seed=0).questions]
    assert ten.questions == found.sample(20, seed=0).questions[:10]  # a longer run asks the same ones first
    assert ten.questions != found.sample(10, seed=1).questions
    assert len({q.id for q in ten.questions}) == 10
    assert sorted(q.id for q in found.sample(99, seed=0).questions) == sorted(q.id for q in found.questions)
    assert (ten.fingerprint, ten.source) == (found.fingerprint, found.source)


def test_the_corpus_is_one_that_indexing_reads(tmp_path):
    found = load("hotpotqa.json")
    path = tmp_path / "hotpotqa.corpus.jsonl"
    write_corpus(found, path)
    file = SourceFile(path=path, name=path.name, size=path.stat().st_size, mtime_ns=path.stat().st_mtime_ns, alone=True)
    documents = list(load_jsonl(file))
    assert [(d.name, d.title, d.text) for d in documents] == [(p.id, p.title, p.text) for p in found.passages]


def test_an_equal_corpus_is_not_written_again(tmp_path):
    path = tmp_path / "corpus.jsonl"
    write_corpus(load("squad.json"), path)
    before = path.stat()
    write_corpus(load("squad.json"), path)
    assert path.stat() == before  # an index of it stays fresh
    write_corpus(load("bioasq.json"), path)
    assert [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()] == [
        passage.text for passage in load("bioasq.json").passages
    ]


def test_a_passage_has_the_same_id_wherever_it_stands(tmp_path):
    record = json.loads((SETS / "hotpotqa.json").read_text("utf-8"))[1]
    elsewhere = load_questions(written(tmp_path, [record | {"context": [["Westmere", ["Westmere is", "a county. "]]]}]))
    assert elsewhere.passages == load("hotpotqa.json").passages[2:]
