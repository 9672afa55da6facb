"""Records as JSON lines: what is read back after a kill, and what is refused."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptrag_cli.errors import ConfigError
from adaptrag_cli.json_lines import RecordLog, read_records


class Lamp(msgspec.Struct):
    name: str
    lit: int


LAMPS = [Lamp("east", 1), Lamp("west\nof the line", 2), Lamp("öst", 3)]


def read(path: Path) -> list[Lamp]:
    return list(read_records(path, msgspec.json.Decoder(Lamp).decode, what="no lamp", hint="light one"))


def write(path: Path, *lamps: Lamp) -> None:
    with closing(RecordLog(path)) as log:
        for lamp in lamps:
            log.append(lamp)


def test_no_file_holds_no_records(tmp_path: Path) -> None:
    assert read(tmp_path / "lamps.jsonl") == []


@given(kept=st.integers(0, 200))
def test_a_file_cut_anywhere_holds_the_whole_lines_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, kept: int
) -> None:
    path = tmp_path_factory.mktemp("lamps") / "lamps.jsonl"
    write(path, *LAMPS)
    whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    left = whole[:kept].count(b"\n")
    assert read(path) == LAMPS[:left]
    write(path, *LAMPS[left:])
    assert path.read_bytes() == whole


def test_empty_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "lamps.jsonl"
    write(path, *LAMPS)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n\n \n"))
    assert read(path) == LAMPS


def test_a_broken_line_is_named_with_its_remedy(tmp_path: Path) -> None:
    path = tmp_path / "lamps.jsonl"
    path.write_bytes(b'{"name": "east", "lit": 1}\n{"name": "west"}\n')
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert caught.value.message.startswith(f"{path}, line 2 is no lamp: ")
    assert caught.value.hint == "light one"
