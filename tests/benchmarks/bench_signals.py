"""What signals cost, and what a text that is resumed costs against one from scratch.

    python tests/benchmarks/bench_signals.py MODEL.gguf [--threads N] [--tokens N] [--rounds N]

Ratios of what takes turns (medians over the rounds), in processor time, because wall time depends on what else the
machine does.
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
PASSAGE = "The ferry to Saltmarsh leaves at 06:40, except on Mondays, when the harbour master winds the clock. " * 8


def generate(model: LlamaModel, prompt: Prompt, tokens: int, states: tuple[int, ...] = ()) -> Generation:
    """Run one call to its end."""
    run = model.generate(prompt, max_tokens=tokens, states=states)
    while True:
        try:
            next(run)
        except StopIteration as finished:
            return finished.value


def seconds_of_both(off: LlamaModel, on: LlamaModel, tokens: int, states: tuple[int, ...]) -> tuple[float, float]:
    """Processor seconds of each for the tokens after the first one; they take turns, and meet the same disturbances."""
    runs = [
        off.generate(off.build_prompt(STORY), max_tokens=tokens),
        on.generate(on.build_prompt(STORY), max_tokens=tokens, states=states),
    ]
    spent = [0.0, 0.0]
    for run in runs:
        next(run)
    for _ in range(tokens - 1):
        for i, run in enumerate(runs):
            start = time.process_time()
            next(run)
            spent[i] += time.process_time() - start
    return spent[0], spent[1]


def compare_speeds(off: LlamaModel, on: LlamaModel, tokens: int, rounds: int) -> None:
    """Print the speed of decoding with signals in ratio to the speed without."""
    every_second = tuple(range(0, on.info.layer_count, 2))
    for way, states in {
        "nothing asked": (),
        "states of one layer": (-1,),
        f"states of {len(every_second)} layers": every_second,
    }.items():
        pairs = [seconds_of_both(off, on, tokens, states) for _ in range(rounds)]
        ratios = [plain / watched for plain, watched in pairs]
        speed = median((tokens - 1) / plain for plain, _ in pairs)
        print(
            f"decoding with signals, {way}: {median(ratios):.3f} of {speed:.1f} tokens per processor second "
            f"({min(ratios):.3f} to {max(ratios):.3f})"
        )


def compare_prefills(on: LlamaModel, rounds: int) -> None:
    """Print what reading the attention of a text adds to evaluating it, and what a resumed text evaluates."""
    prompt = on.build_prompt(PASSAGE)
    probe = generate(on, prompt, 64)
    written = tuple(token.id for token in probe.tokens)
    whole = Prompt(text="", token_ids=(*prompt.token_ids, *written))
    ratios = []
    for _ in range(rounds + 1):  # the first one is not counted
        spent = []
        for evaluate in (lambda: on._context.prefill(whole.token_ids), lambda: on.attend(prompt, written)):
            on.forget()
            start = time.process_time()
            evaluate()
            spent.append(time.process_time() - start)
        ratios.append(spent[1] / spent[0])
    print(
        f"prefill of {len(whole)} tokens with the attention of the last {len(written)}: {median(ratios[1:]):.3f} of "
        "the time without"
    )

    for cut in (len(written) // 4, len(written) // 2, len(written) * 3 // 4):
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
