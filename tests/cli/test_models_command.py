"""`adaptrag models`: stdout, stderr and code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from adaptrag_cli.cli import models as command
from adaptrag_cli.cli.pull_progress import showing_pulls
from adaptrag_cli.events import DraftOdds
from adaptrag_cli.locations import default_models_dir
from adaptrag_cli.models import catalogue, files
from adaptrag_cli.models.catalogue import Calibration, CatalogueEntry, HubSource, PackageSource
from adaptrag_cli.models.sources import Progress
from model_servers import HubServer, serving, sha256

GGUF = b"GGUF" + bytes(996)
TINY = CatalogueEntry(
    name="tiny",
    kind="answer",
    licence="Apache-2.0",
    purpose="for tests",
    file="tiny.gguf",
    size_bytes=len(GGUF),
    sha256=sha256(GGUF),
    sources=(HubSource(repo="someone/tiny", file="tiny.gguf"),),
)


@pytest.fixture(autouse=True)
def tiny_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (catalogue, files, command):
        monkeypatch.setattr(module, "ENTRIES", (TINY,))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny model with all that an entry can say."""
    entry = replace(
        TINY,
        context_length=2048,
        sources=(
            PackageSource(package="tiny-model-part{n}", version="1.0", member="tiny/part{n}.bin", parts=2),
            *TINY.sources,
        ),
        calibration=Calibration(
            threshold=0.25,
            measured_on="60 drafts of a test set",
            how="3 of 4 right below",
            odds=(
                DraftOdds(above=0.0, up_to=0.25, right=3, drafts=4),
                DraftOdds(above=0.25, up_to=None, right=0, drafts=56),
            ),
        ),
    )
    for module in (catalogue, files, command):
        monkeypatch.setattr(module, "ENTRIES", (entry,))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    server = HubServer(repo="someone/tiny", files={"tiny.gguf": GGUF}, large={"tiny.gguf"})
    with serving(server):
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


@pytest.fixture
def placed(tmp_path: Path) -> Path:
    """A models folder with the tiny model in it, placed by hand."""
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(GGUF)
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command.models_app, [str(argument) for argument in arguments])


def test_pull_shows_licence_and_size_then_one_line_per_ten_per_cent(hub: HubServer, tmp_path: Path) -> None:
    result = run("pull", "tiny", "--models-dir", tmp_path / "models")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "tiny: licence Apache-2.0, 0.0 MB; for tests",
        "tiny: 100 % (0.0 MB of 0.0 MB, tiny.gguf)",
        "tiny: checking SHA-256",
        f"tiny is at {tmp_path / 'models' / 'tiny.gguf'} (its SHA-256 is the published one)",
    ]


def test_pull_without_a_flag_uses_the_setting_then_the_user_data_folder(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("pull", "tiny").exit_code == 0
    assert run("path", "tiny").stdout == f"{default_models_dir() / 'tiny.gguf'}\n"
    monkeypatch.setenv("ADAPTRAG_MODELS_DIR", str(tmp_path / "elsewhere"))
    assert run("path", "tiny").exit_code == 4
    assert run("pull", "tiny").exit_code == 0
    assert run("path", "tiny").stdout == f"{tmp_path / 'elsewhere' / 'tiny.gguf'}\n"


def test_pull_from_a_file(tmp_path: Path) -> None:
    given = tmp_path / "given.gguf"
    given.write_bytes(GGUF)
    assert run("pull", "tiny", "--from", given, "--models-dir", tmp_path / "models").exit_code == 0
    assert (tmp_path / "models" / "tiny.gguf").read_bytes() == GGUF


def test_a_pull_that_fails_is_one_last_line_and_code_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    result = run("pull", "tiny", "--models-dir", tmp_path)
    assert result.exit_code == 4
    assert result.stderr.splitlines()[-1] == (
        f"adaptrag: no source delivered tiny for {tmp_path / 'tiny.gguf'}: model hub: the hub cannot be reached "
        "(ConnectError) (try again, what arrived is kept; or fetch it yourself, then: adaptrag models pull tiny "
        "--from FILE)"
    )


def test_an_unknown_name_is_a_usage_error(tmp_path: Path) -> None:
    result = run("pull", "tinny", "--models-dir", tmp_path)
    assert result.exit_code == 2
    assert "unknown model 'tinny'; did you mean 'tiny'?" in result.stderr


def test_list_says_what_is_here(placed: Path) -> None:
    result = run("list", "--models-dir", placed)
    assert result.stdout.splitlines() == [
        "NAME  KIND    STATE       SIZE    THRESHOLD     LICENCE",
        "tiny  answer  unverified  0.0 MB  uncalibrated  Apache-2.0",
    ]
    assert result.stderr == f"models folder: {placed}; purpose, hash and sources of each: adaptrag models list -v\n"


def test_list_tells_all_that_the_catalogue_knows(measured: None, placed: Path) -> None:
    assert run("list", "-v", "--models-dir", placed).stdout.splitlines() == [
        "tiny  answer  unverified",
        "    purpose        for tests",
        "    licence        Apache-2.0",
        "    size           0.0 MB",
        f"    SHA-256        {sha256(GGUF)}",
        "    context        2,048 tokens",
        "    source 1       package index: tiny-model-part{n} 1.0, 2 parts",
        "    source 2       model hub: someone/tiny, revision main, file tiny.gguf",
        "    threshold      0.25",
        "    measured on    60 drafts of a test set",
        "    chosen because 3 of 4 right below",
        "    right drafts   u <= 0.25: 3 of 4; above: 0 of 56",
        f"    path           {placed / 'tiny.gguf'}",
    ]


def test_list_as_json(measured: None, placed: Path) -> None:
    assert json.loads(run("list", "--json", "--models-dir", placed).stdout) == {
        "models_dir": str(placed),
        "models": [
            {
                "name": "tiny",
                "kind": "answer",
                "state": "unverified",
                "path": str(placed / "tiny.gguf"),
                "size_bytes": 1000,
                "sha256": sha256(GGUF),
                "licence": "Apache-2.0",
                "context_length": 2048,
                "sources": [
                    {
                        "from": "package index",
                        "package": "tiny-model-part{n}",
                        "version": "1.0",
                        "member": "tiny/part{n}.bin",
                        "parts": 2,
                    },
                    {"from": "model hub", "repo": "someone/tiny", "file": "tiny.gguf", "revision": "main"},
                ],
                "threshold": 0.25,
                "calibration": {
                    "threshold": 0.25,
                    "measured_on": "60 drafts of a test set",
                    "how": "3 of 4 right below",
                    "odds": [
                        {"above": 0.0, "up_to": 0.25, "right": 3, "drafts": 4},
                        {"above": 0.25, "up_to": None, "right": 0, "drafts": 56},
                    ],
                    "abstain_uncertainty": None,
                    "abstain_query_score": None,
                    "verifier": None,
                    "triggers": {},
                    "triggers_how": "",
                },
                "purpose": "for tests",
            }
        ],
    }


@pytest.mark.parametrize(("content", "state"), [(None, "not here"), (GGUF[:-1], "damaged"), (GGUF, "verified")])
def test_states(tmp_path: Path, content: bytes | None, state: str) -> None:
    if content is not None:
        (tmp_path / "tiny.gguf").write_bytes(content)
        run("verify", "tiny", "--models-dir", tmp_path)
    assert json.loads(run("list", "--json", "--models-dir", tmp_path).stdout)["models"][0]["state"] == state


def test_an_unfinished_pull_is_listed(tmp_path: Path) -> None:
    (tmp_path / ".partial" / "tiny").mkdir(parents=True)
    assert json.loads(run("list", "--json", "--models-dir", tmp_path).stdout)["models"][0]["state"] == "unfinished"


def test_a_hub_encoder_is_listed(tmp_path: Path) -> None:
    folder = tmp_path / "owner--encoder"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    row = json.loads(run("list", "--json", "--models-dir", tmp_path).stdout)["models"][1]
    assert (row["name"], row["kind"], row["path"]) == ("owner/encoder", "encoder", str(folder))


def test_verify_checks_all_that_are_here(placed: Path) -> None:
    result = run("verify", "--models-dir", placed)
    assert result.exit_code == 0
    assert result.stdout == f"tiny  ok  sha256:{sha256(GGUF)}\n"


def test_verify_of_a_changed_file_names_both_hashes(placed: Path) -> None:
    wrong = b"GGUF" + bytes(995) + b"\x01"
    (placed / "tiny.gguf").write_bytes(wrong)
    result = run("verify", "--models-dir", placed)
    assert result.exit_code == 4
    assert f"has SHA-256 {sha256(wrong)}, expected {sha256(GGUF)}" in result.stderr


def test_verify_of_an_empty_folder_says_so(tmp_path: Path) -> None:
    result = run("verify", "--models-dir", tmp_path)
    assert (result.exit_code, result.stderr) == (0, f"no models in {tmp_path}\n")


def test_remove(placed: Path) -> None:
    result = run("remove", "tiny", "--models-dir", placed)
    assert (result.exit_code, result.stderr) == (0, "removed tiny, 0.0 MB freed\n")
    assert not (placed / "tiny.gguf").exists()
    assert run("remove", "tiny", "--models-dir", placed).exit_code == 4


@pytest.mark.parametrize("name", ["list", "pull", "verify", "path", "remove"])
def test_help_has_an_example(name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"adaptrag models {name}" in " ".join(result.stdout.replace("│", " ").split())


def test_plain_progress_is_one_line_per_ten_per_cent(capsys: pytest.CaptureFixture[str]) -> None:
    with showing_pulls() as show:
        for done in range(0, 1_000_000_001, 1_000_000):
            show(Progress(name="tiny", done_bytes=done, total_bytes=1_000_000_000, note="part 1 of 2"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "tiny: licence Apache-2.0, 1.00 GB; for tests"
    assert lines[1] == "tiny: 10 % (100.0 MB of 1.00 GB, part 1 of 2)"
    assert [line.split()[1] for line in lines[1:]] == ["10", "20", "30", "40", "50", "60", "70", "80", "90", "100"]


def test_a_terminal_gets_a_bar_and_no_escape_from_a_file_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with showing_pulls() as show:
        show(Progress(name="tiny", done_bytes=500, total_bytes=1000, note="[red]\x1b]0;title\x07.json"))
        show(Progress(name="tiny", done_bytes=1000, total_bytes=1000, note="[red]\x1b]0;title\x07.json"))
    shown = capsys.readouterr().err
    assert "tiny: licence Apache-2.0" in shown
    assert "1.0/1.0 kB" in shown
    assert "\x1b]0;" not in shown
    assert "\x07" not in shown
