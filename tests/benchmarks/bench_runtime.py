"""What the runtime costs over bare llama.cpp, and what prefix reuse saves.

    python tests/benchmarks/bench_runtime.py MODEL.gguf [--threads N] [--tokens N] [--rounds N]

Ratios of interleaved rounds (medians), because absolute times depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

import numpy as np

from adaptrag_cli.models.base import Generation
from adaptrag_cli.models.context import prefill_parts
from adaptrag_cli.models.llama import LlamaModel, load_llama
from adaptrag_cli.models.logits import token_statistics
from adaptrag_cli.models.native import physical_cores

STORY = "Tell a long story about a lighthouse keeper, a lost umbrella and the sea."
PASSAGE = "The ferry to Saltmarsh leaves at 06:40, except on Mondays, when the harbour master winds the clock. " * 6


def generate(model: LlamaModel, text: str, tokens: int) -> Generation:
    """Run one call to its end."""
    run = model.generate(model.build_prompt(text), max_tokens=tokens)
    while True:
        try:
            next(run)
        except StopIteration as finished:
            return finished.value


def seconds_of_our_loop(model: LlamaModel, tokens: int) -> tuple[float, int]:
    """Seconds between the first and the last token, and how many lie between."""
    run = model.generate(model.build_prompt(STORY), max_tokens=tokens)
    next(run)
    start = time.perf_counter()
    count = sum(1 for _ in run)
    return time.perf_counter() - start, count


def seconds_of_bare_loop(model: LlamaModel, count: int) -> float:
    """Seconds of `llama_decode` and an argmax for as many tokens, on the same context."""
    import llama_cpp

    context = model._context
    context.prefill(model.build_prompt(STORY).token_ids)
    array = (llama_cpp.llama_token * 1)(int(np.argmax(context.logits())))
    start = time.perf_counter()
    for _ in range(count):
        llama_cpp.llama_decode(context._context, llama_cpp.llama_batch_get_one(array, 1))
        array[0] = int(np.argmax(context.logits()))
    return time.perf_counter() - start


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=physical_cores())
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    model = load_llama(
        arguments.model, name="bench", fingerprint="", trusted=True, context_length=2048, threads=arguments.threads
    )
    ratios, speeds = [], []
    for _ in range(arguments.rounds):
        ours, count = seconds_of_our_loop(model, arguments.tokens)
        bare = seconds_of_bare_loop(model, count)
        ratios.append(bare / ours)
        speeds.append(count / ours)
    print(f"decoding: {median(speeds):.1f} tokens/s, {median(ratios):.3f} of a bare llama_decode loop")

    logits = model._context.logits().copy()
    start = time.perf_counter()
    for _ in range(100):
        token_statistics(logits)
    print(f"statistics: {(time.perf_counter() - start) * 10:.3f} ms a token over {len(logits)} logits")

    prompt = model.build_prompt(PASSAGE + "When does the ferry leave?")
    for name, before in [("fresh", None), ("after a prompt with the same passage", PASSAGE + "Who winds the clock?")]:
        times = []
        for _ in range(arguments.rounds):
            model._context.forget()
            if before:
                generate(model, before, 4)
            start = time.perf_counter()
            reused = model._context.prefill(prompt.token_ids)
            times.append(time.perf_counter() - start)
        print(
            f"prefill {name}: {len(prompt) - reused} of {len(prompt)} tokens evaluated "
            f"in {len(prefill_parts(reused, len(prompt)))} parts, {median(times) * 1000:.0f} ms"
        )
    model.close()


if __name__ == "__main__":
    main()
