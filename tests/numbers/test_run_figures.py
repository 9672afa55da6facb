"""Counts of a synthesis run on trees small enough to count by hand."""

from __future__ import annotations

from dataclasses import replace

from adaptrag_cli.learning.branches import branches_of, lines_of, path_told
from adaptrag_cli.learning.run_figures import run_figures
from adaptrag_cli.learning.tree import Limits, choose_path, explore
from adaptrag_cli.report.training_tables import exploration_sections
from explored_trees import Scripted, explored, manifest


def test_right_paths_calls_and_nodes_are_counted():
    # a: root, D, DD wrong, DR right: 3 sub-queries are not asked at full length, so 2; 2 + 2 answers; 2 finals.
    # b: root, D, DD right.  lost: DR, RR have no answer; root, D, DD, R, RD are popped, nothing is right.
    figures = run_figures(
        manifest("a", "b", "lost", "later"), [explored("a"), explored("b", "DD"), explored("lost", "never")]
    )
    assert (figures.asked, figures.explored, figures.solved) == (4, 3, 2)
    assert figures.steps == {2: 2}
    assert figures.retrievals == {0: 1, 1: 1}
    assert figures.several == 1
    assert figures.calls == {
        "sub_queries": 2 + 2 + 3,
        "direct_answers": 2 + 2 + 3,
        "retrievals": 2 + 2 + 3,
        "retrieved_answers": 2 + 2 + 3,
        "finals": 2 + 1 + 2,
    }
    # a and b: D and the root asked, R open; of b also DR. lost: root, D, R asked.
    assert figures.nodes == {"asked": 2 + 2 + 3, "open": 1 + 2, "right": 2, "wrong": 1 + 2, "pruned": 2}
    assert (figures.cut, figures.repeated, figures.used_up) == (0, 0, 2 + 1 + 2)
    assert figures.seconds == 4.5


def test_answers_that_can_be_guessed_are_counted():
    def told(golds: tuple[str, ...], right: str = "DR"):
        return replace(explored("Is Ann or Bo Li older?", right), golds=golds)

    open_answer, named, lost = told(("1912",)), told(("the elder", "Bo Li.")), told(("no",), "never")
    figures = run_figures(manifest("a", "b", "c", "d"), [open_answer, named, told(("Yes",)), lost])
    assert (figures.solved, figures.choices) == (3, 2)
    *_, section = [each for each in exploration_sections(manifest("a", "b", "c", "d"), figures) if each.notes]
    assert "2 of the 3 answers are yes or no, or stand in their question" in " ".join(section.notes)


def test_a_tree_that_the_cap_ends_is_counted():
    capped = explored("a", "never")
    tree = explore("a", Scripted(), "never".__eq__, limits=Limits(max_steps=2, max_expansions=2))
    figures = run_figures(manifest("a"), [type(capped)(**{**vars(capped), "tree": tree})])
    assert (figures.solved, figures.cut, figures.partial, figures.steps) == (0, 1, 0, {})
    limits = Limits(max_steps=2, max_expansions=4)
    tree = explore("a", Scripted(), "DR".__eq__, limits=limits, whole=True)
    figures = run_figures(manifest("a", paths="most"), [replace(capped, tree=tree)])
    assert (figures.solved, figures.cut, figures.partial) == (1, 0, 1)
    notes = [note for each in exploration_sections(manifest("a", paths="most"), figures) for note in each.notes]
    assert any("1 solved trees reached" in note and "their most path is that of what was" in note for note in notes)


def test_branches_tell_answers_endings_and_the_chosen_path():
    tree = explored("lost", "RD").tree
    chosen = choose_path(tree, "cheapest")
    assert chosen is not None and path_told(chosen, "most") == "the most searching right path: RD, 1 look-up"
    root = branches_of(tree, chosen)
    memory, documents = root.children
    assert (root.source, root.answer, root.ending, root.is_chosen) == ("", "", "", True)
    assert (memory.source, memory.answer, memory.is_chosen) == ("memory", "memory", False)
    assert (documents.source, documents.passages, documents.is_chosen) == ("documents", ("found for Who?",), True)
    assert [each.ending for each in memory.children] == ["wrong, its steps used up", "the documents do not tell"]
    assert [each.ending for each in documents.children] == ["right, its steps used up", "the documents do not tell"]
    assert [each.is_chosen for each in documents.children] == [True, False]
    assert lines_of(root, "lost") == (("question", "* lost"), ("asks", "asks: Who?"))
    assert lines_of(memory, "")[0] == ("answer", "D from memory: memory")
    right, pruned = (lines_of(each, "") for each in documents.children)
    assert right == (("chosen", "* D from memory: memory"), ("right", "= RD  right, its steps used up"))
    assert pruned == (("answer", "R from documents"), ("unfinished", "the documents do not tell"))
