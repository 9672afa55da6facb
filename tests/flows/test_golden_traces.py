"""Traces of whole runs, kept to the letter. A change here changes what people have on disk: say so in the changelog.

Rewrite them with `pytest tests/flows/test_golden_traces.py --snapshot-update`, and read the difference.
"""

from __future__ import annotations

import msgspec
import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension

from adaptrag_cli.events import RunStarted, encode_event
from fakes import ScriptedModel, reply
from lamp import RULE, lamp_retriever, run, unsure_model


class JsonLines(SingleFileSnapshotExtension):
    """One file a trace, as `--trace` writes it."""

    _file_extension = "jsonl"
    file_extension = "jsonl"


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("dtr", {"threshold": 0.3}),
        ("dtr", {"threshold": 0.9}),
        ("dtr", {"threshold": 0.3, "ais": "dynamic", "retriever": "hybrid"}),
        ("always", {}),
        ("never", {}),
        ("dtr", {"style": "cited"}),
        ("dtr", {"query": ""}),
    ],
    ids=["dtr_retrieved", "dtr_skipped", "dtr_dynamic_hybrid", "always", "never", "dtr_cited", "failed"],
)
def test_trace(snapshot, tmp_path, strategy, options):
    model = ScriptedModel().when("complete sentences", reply("Ottilie Brandt lit it in 1887. It is Tuesday."))
    unsure_model(model)
    events = run(model, lamp_retriever(tmp_path), strategy, rule=RULE, **options)
    started = events[0]
    assert isinstance(started, RunStarted)
    # The index's identity holds file times, which differ from run to run; the version is the release's.
    events[0] = msgspec.structs.replace(started, index_fingerprint="(masked)", adaptrag_version="(masked)")
    trace = b"\n".join(encode_event(event) for event in events) + b"\n"
    assert trace == snapshot(extension_class=JsonLines)
