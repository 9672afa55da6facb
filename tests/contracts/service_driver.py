"""The engine's process with a scripted model and a tiny index: started by test_service.py, in the folder it names.

The model does what its question says: hang until it is cancelled, abort, print from native code. What happens leaves a
line in `log.txt`. A load waits for the named pipe `gate` to be opened where there is one.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import adaptrag_cli.models.encoder
import adaptrag_cli.models.llama
from adaptrag_cli.errors import RunCancelled
from adaptrag_cli.models.base import Generation, Prompt, Token
from adaptrag_cli.service import child
from fakes import ScriptedModel, scripted_token
from lamp import ANGLES, unsure_model
from plane import PlaneEncoder

HANG_IN_PREFILL, HANG_IN_GENERATION = "Who never begins?", "Who never ends?"
ABORT, BREAK, PRINT = "Who aborts?", "Who breaks?", "Who prints?"
NATIVE_COMPLAINT = "GGML_ASSERT(false) failed: \x1b[31mred"


class MischievousModel(ScriptedModel):
    """Keeps a diary, and misbehaves when it is asked to."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._stop = threading.Event()
        unsure_model(self)

    def note(self, line: str) -> None:
        with (self._folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def generate(
        self,
        prompt: Prompt,
        *,
        max_tokens: int,
        stop: Sequence[str] = (),
        max_sentences: int = 0,
        states: Sequence[int] = (),
    ) -> Generator[Token, None, Generation]:
        self.note("call")
        if ABORT in prompt.text:
            os.write(2, NATIVE_COMPLAINT.encode() + b"\n")
            os.abort()
        if BREAK in prompt.text:
            raise RuntimeError("a programming error")
        if PRINT in prompt.text:
            os.write(1, b'{"kind":"ended","job":1}\nnative garbage')
            print("and some from Python", flush=True)
        self._stop.clear()  # forgets an earlier cancellation, as the real one does
        if HANG_IN_PREFILL in prompt.text:
            return self._hang(tokens=0)
        if HANG_IN_GENERATION in prompt.text:
            return self._hang(tokens=3)
        return super().generate(prompt, max_tokens=max_tokens, stop=stop, max_sentences=max_sentences, states=states)

    def cancel(self) -> None:
        super().cancel()
        self._stop.set()

    def close(self) -> None:
        self.note("close")

    def _hang(self, tokens: int) -> Generator[Token, None, Generation]:
        for _ in range(tokens):
            yield scripted_token(" on", -0.1, 0.2)
        if not tokens:
            self._stop.wait()
            self._stop.clear()  # as if this cancellation had come just before the call
        self._stop.wait()
        raise RunCancelled("stopped while the model was computing")


def main(folder: Path) -> None:
    """Serve, with the plane index of the folder."""

    def load(path: Path, **settings: Any) -> tuple[MischievousModel]:
        if (folder / "gate").exists():
            (folder / "gate").read_bytes()
        model = MischievousModel(folder)
        model.note(f"load {settings['context_length']}")
        return (model,)

    adaptrag_cli.models.llama.load_llama_lanes = load
    adaptrag_cli.models.encoder.load_encoder = lambda *_, **__: PlaneEncoder(folder / "encoder", ANGLES)
    (folder / "pid").write_text(str(os.getpid()))
    child.main()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
