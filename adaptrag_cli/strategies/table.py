"""The table of strategies: names, and where each is. Imports nothing, so that `--help` can list them."""

from __future__ import annotations

from collections.abc import Mapping

TABLE: Mapping[str, str] = {
    "never": "adaptrag_cli.strategies.baselines:Never",
    "always": "adaptrag_cli.strategies.baselines:Always",
    "rerank": "adaptrag_cli.strategies.reranking:Rerank",
    "hyde": "adaptrag_cli.strategies.expansion:HyDE",
    "query2doc": "adaptrag_cli.strategies.expansion:Query2doc",
    "cot-expansion": "adaptrag_cli.strategies.expansion:ChainOfThoughtExpansion",
    "llm-judge": "adaptrag_cli.strategies.judges:LLMJudge",
    "taare": "adaptrag_cli.strategies.judges:TimeAwareJudge",
    "can-answer": "adaptrag_cli.strategies.judges:CanAnswer",
    "cot": "adaptrag_cli.strategies.chain_of_thought:ChainOfThought",
    "cot-retrieve": "adaptrag_cli.strategies.chain_of_thought:ChainOfThoughtRetrieve",
    "ralm": "adaptrag_cli.strategies.ralm:InContextRALM",
    "ircot": "adaptrag_cli.strategies.ircot:IRCoT",
    "flare": "adaptrag_cli.strategies.flare:FLARE",
    "etc": "adaptrag_cli.strategies.etc:EntropyTrend",
    "dragin": "adaptrag_cli.strategies.dragin:Dragin",
    "probing": "adaptrag_cli.strategies.probing:ProbingRAG",
    "uar": "adaptrag_cli.strategies.uar:UAR",
    "search-o1": "adaptrag_cli.strategies.search_o1:SearchO1",
    "auto-rag": "adaptrag_cli.strategies.auto_rag:AutoRAG",
    "iterdrag": "adaptrag_cli.strategies.deeprag:IterDRAG",
    "deeprag": "adaptrag_cli.strategies.deeprag:DeepRAG",
    "skr-knn": "adaptrag_cli.strategies.routers:NearestQuestions",
    "adaptive-rag": "adaptrag_cli.strategies.adaptive_rag:AdaptiveRAG",
    "popularity": "adaptrag_cli.strategies.routers:PopularityGate",
    "pairs": "adaptrag_cli.strategies.pairs:Pairs",
    "dpr-ais": "adaptrag_cli.strategies.pairs:DualPath",
    "dtr": "adaptrag_cli.strategies.dtr:DecideThenRetrieve",
    "dtr+verify": "adaptrag_cli.strategies.verify:DecideRetrieveVerify",
}


def strategy_names() -> tuple[str, ...]:
    """All registered names, without importing any of them."""
    return tuple(TABLE)
