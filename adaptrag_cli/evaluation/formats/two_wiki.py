"""2WikiMultihopQA: HotpotQA's fields with `evidences`, and the answers' other names in `id_aliases.json` beside it.

Fields: README and `2wikimultihop_evaluate_v1.1.py` of Alab-NII/2wikimultihop, which scores against
aliases and demonyms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.evaluation.formats.base import Collected, Format, Parsed
from adaptrag_cli.evaluation.formats.hotpotqa import has_paragraphs, read_paragraphs

ALIASES = "id_aliases.json"


def _sniff(parsed: Parsed) -> bool:
    return has_paragraphs(parsed) and "evidences" in parsed.first


def _read(parsed: Parsed, into: Collected) -> None:
    names = _aliases(parsed, into)
    if not names and any(record.get("answer_id") for record in parsed.records):
        into.notes.append(f"no {ALIASES} beside it: other names of an answer count as wrong")

    def aliases(record: Mapping[str, Any]) -> list[str]:
        return names.get(str(record.get("answer_id")), [])

    read_paragraphs(parsed, into, aliases=aliases)


def _aliases(parsed: Parsed, into: Collected) -> dict[str, list[str]]:
    """Other names by Wikidata id; each line of the file is one entity."""
    path = parsed.path.with_name(ALIASES)
    names: dict[str, list[str]] = {}
    for number, line in enumerate((into.companion(path) or "").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entity = json.loads(line)
            names[entity["Q_id"]] = [*entity["aliases"], *entity.get("demonyms", [])]
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path}:{number}: no entity with Q_id and aliases", "fetch the file again") from error
    return names


FORMAT = Format(name="2wikimultihopqa", sniff=_sniff, read=_read)
