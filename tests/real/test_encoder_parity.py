"""The default encoder: its exported form against sentence-transformers, and what a question imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adaptrag_cli.models.encoder import load_encoder
from adaptrag_cli.models.torch_encoder import TorchBackend

pytestmark = pytest.mark.small_model

SUBJECTS = (
    "The harbour office",
    "Marie Curie",
    "foo_bar in v2.1.3",
    "Ein altes Café",
    "漢字の本",
    "A 14th-century bridge",
)
CLAIMS = (
    "opened in 1998.",
    "was born in Warsaw, studied in Paris and won two prizes; her notebooks are still kept in a lead-lined box.",
    "is described in the handbook, " + "which lists every step of the procedure in order, " * 12 + "and ends here.",
)
TEXTS = [f"{subject} {claim}" for subject in SUBJECTS for claim in CLAIMS] + ["", "?", "tea " * 600]


def test_the_exported_form_gives_sentence_transformers_vectors(encoder_dir: Path, tmp_path: Path) -> None:
    exported = load_encoder(str(encoder_dir), tmp_path).encode_documents(TEXTS)
    own = TorchBackend(encoder_dir, 256).encode(TEXTS, "")
    assert exported.shape == own.shape == (len(TEXTS), 384)
    assert np.sum(exported * own, axis=1, dtype=np.float64).min() >= 0.9999


def test_a_passage_is_nearer_to_its_question_than_to_another(encoder_dir: Path, tmp_path: Path) -> None:
    encoder = load_encoder(str(encoder_dir), tmp_path)
    queries = encoder.encode_queries(["Where was Marie Curie born?", "When did the harbour office open?"])
    documents = encoder.encode_documents(["Marie Curie was born in Warsaw.", "The harbour office opened in 1998."])
    scores = queries @ documents.T
    assert scores[0, 0] > 0.7 > 0.3 > scores[0, 1]
    assert scores[1, 1] > 0.7 > 0.3 > scores[1, 0]


def test_a_question_imports_no_torch(models_dir: Path) -> None:
    code = f"""
import json, sys
from pathlib import Path
from adaptrag_cli.models.encoder import load_encoder
encoder = load_encoder("all-minilm-l6-v2", Path({str(models_dir)!r}))
encoder.fingerprint, encoder.tokenizer_path
before = sorted({{"numpy", "onnxruntime", "tokenizers", "torch"}} & set(sys.modules))
length = float((encoder.encode_queries(["Who?"]) ** 2).sum())
after = sorted({{"onnxruntime", "sentence_transformers", "torch", "transformers"}} & set(sys.modules))
print(json.dumps([before, after, round(length, 5)]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [[], ["onnxruntime"], 1.0]
