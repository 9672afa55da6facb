"""A question over an index made with the default encoder needs no torch: it would cost 5 s and half a gigabyte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import json, sys
from adaptrag_cli.cli.app import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


def run(words: list[str], models_dir: Path) -> tuple[str, set[str]]:
    """Standard output, and the top-level modules that were loaded at the end."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words],
        env=os.environ | {"ADAPTRAG_MODELS_DIR": str(models_dir)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.small_model
def test_neither_indexing_nor_asking_imports_torch(
    models_dir: Path, small_llm_path: Path, encoder_dir: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "boat.md").write_text("# Boat\n\nThe boat to Vessel Rock leaves on Tuesday at nine.\n", encoding="utf-8")
    unwanted = {"torch", "transformers", "sentence_transformers", "textual"}
    out, loaded = run(["index", "notes", "--index-dir", "indexes", "--json"], models_dir)
    assert json.loads(out)["chunks"] == 1
    assert loaded & unwanted == set()
    words = ["ask", "When does the boat leave?", "--index-dir", "indexes", "--strategy", "always", "--json"]
    out, loaded = run([*words, "--model", str(small_llm_path)], models_dir)
    assert [chunk["chunk_id"] for chunk in json.loads(out)["selected"]] == ["boat.md#0"]
    assert loaded & unwanted == set()
    assert {"faiss", "llama_cpp", "onnxruntime"} <= loaded
