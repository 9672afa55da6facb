"""Explored trees that are small enough to count by hand, and the manifest of a run of them."""

from __future__ import annotations

from adaptrag_cli.evaluation.results import SetInfo
from adaptrag_cli.learning.runs import Explored, SynthesisManifest
from adaptrag_cli.learning.tree import Answers, Limits, explore


class Scripted:
    """Asks two things; `lost` answers nothing from documents."""

    def sub_query(self, question, steps) -> str:
        return ("Who?", "Where?", "")[len(steps)]

    def answers(self, question, steps, sub_query) -> Answers:
        lost = question == "lost" and len(steps) == 1
        return Answers(direct="memory", passages=(f"found for {sub_query}",), retrieved="" if lost else "documents")

    def final(self, question, steps) -> str:
        return "".join("R" if step.retrieve else "D" for step in steps)


def explored(question_id: str, right: str = "DR", *, name: str = "set") -> Explored:
    tree = explore(question_id, Scripted(), right.__eq__, limits=Limits(max_steps=2, max_expansions=20))
    return Explored(set=name, question_id=question_id, golds=(right,), tree=tree, seconds=1.5)


def manifest(*questions: str, **other) -> SynthesisManifest:
    info = SetInfo(name="set", format="ours", fingerprint="f", questions=questions, digests=questions)
    told = {"limit": None, "paths": "cheapest", "settings": {"top_k": 3, "prompt": "p"}, "sets": (info,)} | other
    return SynthesisManifest(
        created="2026-01-01T00:00:00+00:00",
        adaptrag_version="0",
        versions={"llama-cpp-python": "1"},
        model="small",
        model_fingerprint="sha256:0",
        teacher="large",
        teacher_fingerprint="sha256:1",
        seed=0,
        whole=False,
        max_steps=2,
        max_expansions=20,
        indexes={"set": "i"},
        **told,
    )
