"""What signals cost, and what a text that is resumed costs against one from scratch.

    python tests/benchmarks/bench_signals.py MODEL.gguf [--threads N] [--tokens N] [--rounds N]

Ratios of interleaved rounds (medians), because absolute times depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

from adaptrag_cli.models.base import Generation, Prompt
from adaptrag_cli.models.llama import LlamaModel, load_llama
from adaptrag_cli.models.native import physical_cores

STORY = "Tell a long story about a lighthouse keeper, a lost umbrella and the sea."
PASSAGE = "The ferry to Saltmarsh leaves at 06:40, except on Mondays, when the harbour master winds the clock. " * 12


def generate(model: LlamaModel, prompt: Prompt, tokens: int, states: tuple[int, ...] = ()) -> Generation:
    """Run one call to its end."""
    run = model.generate(prompt, max_tokens=tokens, states=states)
    while True:
        try:
            next(run)
        except StopIteration as finished:
            return finished.value


def tokens_per_second(model: LlamaModel, tokens: int, states: tuple[int, ...] = ()) -> float:
    """Speed between the first and the last token."""
    run = model.generate(model.build_prompt(STORY), max_tokens=tokens, states=states)
    next(run)
    start = time.perf_counter()
    count = sum(1 for _ in run)
    return count / (time.perf_counter() - start)


def compare_speeds(off: LlamaModel, on: LlamaModel, tokens: int, rounds: int) -> None:
    """Print the speed of decoding with signals in ratio to the speed without."""
    every_second = tuple(range(0, on.info.layer_count, 2))
    ways = {"nothing asked": (), "states of one layer": (-1,), f"states of {len(every_second)} layers": every_second}
    ratios: dict[str, list[float]] = {way: [] for way in ways}
    plain = []
    for _ in range(rounds):
        for way, states in ways.items():
            plain.append(tokens_per_second(off, tokens))
            ratios[way].append(tokens_per_second(on, tokens, states) / plain[-1])
    print(f"decoding without signals: {median(plain):.1f} tokens/s")
    for way, values in ratios.items():
        print(f"decoding with signals, {way}: {median(values):.3f} of it ({min(values):.3f} to {max(values):.3f})")


def compare_prefills(on: LlamaModel, rounds: int) -> None:
    """Print what reading the attention of a text adds to evaluating it, and what a resumed text evaluates."""
    prompt = on.build_prompt(PASSAGE)
    probe = generate(on, prompt, 64)
    written = tuple(token.id for token in probe.tokens)
    whole = Prompt(text="", token_ids=(*prompt.token_ids, *written))
    ratios = []
    for _ in range(rounds):
        on.forget()
        start = time.perf_counter()
        on._context.prefill(whole.token_ids)
        plain = time.perf_counter() - start
        on.forget()
        start = time.perf_counter()
        on.attend(prompt, written)
        ratios.append((time.perf_counter() - start) / plain)
    print(
        f"prefill of {len(whole)} tokens with the attention of the last {len(written)}: {median(ratios):.3f} of plain"
    )

    for cut in (16, 32, 48):
        kept = Prompt(text="", token_ids=(*prompt.token_ids, *written[:cut]))
        for name, is_attended in (("probe", False), ("probe and attention", True)):
            on.forget()
            generate(on, prompt, 64)
            if is_attended:
                on.attend(prompt, written)
            resumed = generate(on, kept, 1)
            evaluated = resumed.prompt_tokens - resumed.reused_tokens
            print(
                f"resumed after {name}, cut at token {cut} of {len(written)}: {evaluated} of {len(kept)} prompt tokens "
                f"evaluated ({evaluated / len(kept):.1%})"
            )


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=physical_cores())
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()

    def load(signals: bool) -> LlamaModel:
        return load_llama(
            arguments.model,
            name="bench",
            fingerprint="",
            trusted=True,
            context_length=2048,
            threads=arguments.threads,
            signals=signals,
        )

    off, on = load(False), load(True)
    compare_speeds(off, on, arguments.tokens, arguments.rounds)
    compare_prefills(on, arguments.rounds)
    off.close()
    on.close()


if __name__ == "__main__":
    main()
