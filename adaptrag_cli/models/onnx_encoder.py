"""Encoding with an exported encoder: ONNX Runtime and a tokenizer, without torch.

Every text is one run of the graph. So a vector depends on its text alone, to the last bit: nothing is padded and no
neighbour in a batch changes the order of a sum. It also costs less: 68 ms of one busy core for a passage of 127 tokens,
against 73, 85 and 99 ms sorted by length and padded in batches of 4, 8 and 16. Several cores take a text each.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.errors import ModelError
from adaptrag_cli.models.native import physical_cores

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer


class OnnxBackend:
    """One loaded export. `encode` may be called from any thread."""

    def __init__(self, model: Path, tokenizer: Path, max_length: int) -> None:
        """Load the graph and the tokenizer.

        Raises:
            ModelError: one of the files cannot be loaded.
        """
        self._session = _open_session(model)
        self._tokenizer = _open_tokenizer(tokenizer, max_length)
        self._threads = physical_cores()

    def encode(self, texts: Sequence[str], prefix: str) -> NDArray[np.float32]:
        """Unit vectors, shape (len(texts), dimension); `texts` is not empty."""
        import numpy as np

        prefixed = [prefix + text for text in texts]
        if len(prefixed) == 1:
            return self._encode_one(prefixed[0])
        pool = ThreadPoolExecutor(min(self._threads, len(prefixed)))
        try:
            return np.concatenate(list(pool.map(self._encode_one, prefixed)))
        finally:
            pool.shutdown(cancel_futures=True)  # Ctrl-C ends after the texts in work

    def _encode_one(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        ids = np.asarray([self._tokenizer.encode(text).ids], dtype=np.int64)
        vector: NDArray[np.float32] = self._session.run(None, {"input_ids": ids})[0]
        return vector


def _open_session(model: Path) -> InferenceSession:
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # texts run side by side instead
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # a plan for each length would be kept
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(os.fspath(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library's errors have no base class of their own
        raise ModelError(
            f"ONNX Runtime cannot load {model}: {str(error).splitlines()[0]}",
            f"delete {model.parent}, it is made again",
        ) from error


def _open_tokenizer(path: Path, max_length: int) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(os.fspath(path))
    except Exception as error:  # the library raises plain Exception
        raise ModelError(f"{path} is not a tokenizer: {error}", "fetch or save the encoder again") from error
    # Files carry settings of whoever saved them; all-MiniLM-L6-v2 pads and cuts to 128.
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    tokenizer.encode_special_tokens = True  # `[SEP]` written in a document is text
    return tokenizer
