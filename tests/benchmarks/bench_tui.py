"""Compare tokens per second of one question in `adaptrag tui` and in `adaptrag ask`, each in a terminal of its own.

Both run in pseudo-terminals of the same size, by turns. The clock is the wall's: from the first token to the last event
of the run, as it reaches whoever shows it.

    python tests/benchmarks/bench_tui.py "How is the fog horn tested?" --index demo --rounds 3
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from contextlib import closing
from pathlib import Path

from adaptrag_cli.config import load_settings
from adaptrag_cli.events import Event, RunFailed, RunFinished, TokenGenerated

COLUMNS, LINES = 120, 40


class Stopwatch:
    """Counts tokens and times them."""

    def __init__(self) -> None:
        self.first = self.last = 0.0
        self.tokens = 0

    def see(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, TokenGenerated):
            self.first = self.first or now
            self.tokens += 1
        elif isinstance(event, RunFinished | RunFailed):
            self.last = now

    @property
    def rate(self) -> float:
        return (self.tokens - 1) / (self.last - self.first)


def ask(question: str, flags: dict[str, str], watch: Stopwatch) -> None:
    """As `adaptrag ask QUESTION` does."""
    from adaptrag_cli.render import RunView
    from adaptrag_cli.session.session import open_session

    with closing(open_session(load_settings(flags=flags))) as session, closing(RunView(sys.stdout, sys.stderr)) as view:
        for event in session.ask(question):
            watch.see(event)
            view.show(event)


def tui(question: str, flags: dict[str, str], watch: Stopwatch) -> None:
    """As `adaptrag tui QUESTION` does; it leaves when the run is over."""
    from adaptrag_cli.service.protocol import Told
    from adaptrag_cli.tui.app import AdaptRAGApp, EngineReplied
    from adaptrag_cli.tui.launch import Launch

    class Timed(AdaptRAGApp):
        def on_engine_replied(self, message: EngineReplied) -> None:
            for reply in message.replies:
                if isinstance(reply, Told):
                    watch.see(reply.event)
            if watch.last:
                self.exit()

    Timed(Launch(flags=flags, question=question)).run()


def run_in_terminal(arguments: list[str]) -> float:
    """Run this script's other half in a pseudo-terminal; returns its rate."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    with tempfile.NamedTemporaryFile() as result:
        command = [sys.executable, __file__, *arguments, "--result", result.name]
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, env=environment, start_new_session=True
        )
        os.close(inner)
        drain = threading.Thread(target=_drain, args=(outer,), daemon=True)
        drain.start()
        process.wait()
        drain.join()
        os.close(outer)
        return float(Path(result.name).read_text())


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 65536):
            pass
    except OSError:  # the other end is closed
        return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question")
    parser.add_argument("--index", required=True)
    parser.add_argument("--model", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--half", choices=["ask", "tui"], help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    flags = {
        "ask.strategy": "dtr",
        "ask.threshold": 0.0,
        "ask.style": "cited",
        "index.name": args.index,
        "models.answer": args.model,
    }
    if args.half:
        watch = Stopwatch()
        {"ask": ask, "tui": tui}[args.half](args.question, flags, watch)
        args.result.write_text(str(watch.rate))
        return
    shared = [args.question, "--index", args.index, "--model", args.model]
    ratios = []
    for number in range(1, args.rounds + 1):
        rates = {half: run_in_terminal([*shared, "--half", half]) for half in ("ask", "tui")}
        ratios.append(rates["tui"] / rates["ask"])
        print(f"round {number}: ask {rates['ask']:.2f} tok/s, tui {rates['tui']:.2f} tok/s, ratio {ratios[-1]:.3f}")
    print(f"median ratio {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
