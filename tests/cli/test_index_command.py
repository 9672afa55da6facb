"""`adaptrag index` and `adaptrag indexes`: stdout is data, stderr is talk, exit codes as documented."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from adaptrag_cli.cli.index import index, indexes_app
from adaptrag_cli.cli.index_progress import showing_build
from adaptrag_cli.index.build import BuildProgress
from adaptrag_cli.index.home import open_index
from index_fakes import HashEncoder

app = typer.Typer()
app.command("index")(index)
app.add_typer(indexes_app, name="indexes")
runner = CliRunner()

SETUP = (
    "import sys; sys.path[:0] = {path!r}; from pathlib import Path; from index_fakes import HashEncoder;"
    "import adaptrag_cli.models.encoder as encoders;"
    "encoders.load_encoder = lambda *args, **kw: HashEncoder(Path('encoder'));"
    "import typer; from adaptrag_cli.cli.index import index; app = typer.Typer(); app.command()(index);"
)


def fresh_interpreter() -> str:
    """Code that makes `app` with the fake encoder in a process of its own."""
    return SETUP.format(path=[str(Path(__file__).parents[1]), str(Path(__file__).parents[2])])


@pytest.fixture(autouse=True)
def _encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = HashEncoder(tmp_path / "encoder")
    monkeypatch.setattr("adaptrag_cli.models.encoder.load_encoder", lambda *args, **keywords: made)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "My Docs"
    folder.mkdir()
    (folder / "a.md").write_text("# Ferry\n\nThe ferry leaves at seven.\n")
    (folder / "b.txt").write_text("Quiet time starts at nine.\n")
    return folder


def test_a_report_on_stdout_and_an_index_in_the_data_folder(docs: Path) -> None:
    done = runner.invoke(app, ["index", str(docs)])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == f"my-docs: 2 documents, 2 chunks, from {docs}"
    assert re.fullmatch(r"  2 new or changed, 0 unchanged, 0 removed; 2 chunks embedded in \d+\.\d s", lines[1])
    assert len(lines) == 2
    assert done.stderr.splitlines()[0] == "reading 2 files"
    listed = runner.invoke(app, ["indexes", "list"])
    assert listed.stdout.startswith("my-docs  2 documents, 2 chunks, ")
    assert listed.stderr.startswith("1 in ")


def test_json_is_one_document_with_every_skipped_file(docs: Path) -> None:
    for number in range(12):
        (docs / f"picture{number:02}.png").write_bytes(b"\x89PNG")
    done = runner.invoke(app, ["index", str(docs), "--json", "--name", "x"])
    report = json.loads(done.stdout)
    assert list(report) == [
        "name", "path", "files_seen", "documents_seen", "documents_indexed", "documents_unchanged",
        "documents_removed", "documents_skipped", "documents_repaired", "chunks", "chunks_embedded", "seconds",
    ]  # fmt: skip
    assert (report["name"], report["files_seen"], len(report["documents_skipped"])) == ("x", 14, 12)
    again = runner.invoke(app, ["index", str(docs), "--json", "--name", "x"])
    assert json.loads(again.stdout)["chunks_embedded"] == 0
    assert again.stderr == ""


def test_long_lists_of_skipped_files_are_grouped_and_shortened(docs: Path) -> None:
    for number in range(12):
        (docs / f"p{number:02}.png").write_bytes(b"\x89PNG")
    (docs / "empty.txt").touch()
    done = runner.invoke(app, ["index", str(docs)])
    assert done.stdout.splitlines()[2:] == [
        "  13 skipped of 15 files seen (all of them: --json)",
        "       12  unsupported format .png: p00.png, p01.png, p02.png and 9 more",
        "        1  empty file: empty.txt",
    ]


def test_repairs_are_grouped_below_what_was_skipped(docs: Path) -> None:
    for number in range(4):
        (docs / f"n{number}.txt").write_bytes(b"One sentence\0and another.")
    (docs / "west.txt").write_bytes("Caf\u00e9 au lait, s'il vous pla\u00eet.".encode("cp1252"))
    for _ in range(2):
        done = runner.invoke(app, ["index", str(docs)])
        assert done.stdout.splitlines()[2:] == [
            "  5 repaired on reading (all of them: --json)",
            "        4  1 NUL characters replaced: n0.txt, n1.txt, n2.txt and 1 more",
            "        1  decoded as cp1252: west.txt",
        ]


def test_many_reasons_are_cut_short(docs: Path) -> None:
    (docs / "corpus.jsonl").write_text('{"id": "a", "text": "Good."}\n' + "{\n" * 20)
    done = runner.invoke(app, ["index", str(docs)])
    lines = done.stdout.splitlines()[3:]
    assert len(lines) == 13
    assert lines[-1] == "        8  for 8 other reasons"


def test_prefixes_are_off_unless_asked_for(docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def loading(*arguments: object, **keywords: object) -> HashEncoder:
        given.append((keywords["query_prefix"], keywords["document_prefix"]))
        return HashEncoder(tmp_path / "encoder")

    monkeypatch.setattr("adaptrag_cli.models.encoder.load_encoder", loading)
    runner.invoke(app, ["index", str(docs)])
    runner.invoke(app, ["index", str(docs), "--prefixes"])
    assert given == [("", ""), (None, None)]


def test_the_marked_folder_here_is_the_default(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "indexes").mkdir()
    (tmp_path / "indexes/.adaptrag-indexes").touch()
    runner.invoke(app, ["index", str(docs)])
    assert (tmp_path / "indexes/my-docs/CURRENT").is_file()


def test_flags_reach_the_build(docs: Path, tmp_path: Path) -> None:
    (docs / ".gitignore").write_text("b.txt\n")
    (docs / "c.rst").write_text("Title\n=====\n\nText.\n")
    flags = ["--index-dir", "ix", "--chunk-tokens", "32", "--overlap", "4", "--body-only", "--no-gitignore"]
    done = runner.invoke(
        app, ["index", str(docs), *flags, "--include", "*.md", "--include", "*.txt", "--exclude", "a*"]
    )
    assert done.exit_code == 0
    manifest = open_index(tmp_path / "ix", "my-docs").manifest
    assert list(manifest.files) == ["b.txt"]
    assert (manifest.recipe.chunk_tokens, manifest.recipe.overlap, manifest.recipe.body_only) == (32, 4, True)
    assert manifest.index_command() == (
        f"adaptrag index '{docs}' --name my-docs --encoder hash --include '*.md' --include '*.txt' --exclude 'a*' "
        "--chunk-tokens 32 --overlap 4 --body-only --no-gitignore"
    )


def test_what_was_rebuilt_and_why_is_said(docs: Path) -> None:
    runner.invoke(app, ["index", str(docs)])
    done = runner.invoke(app, ["index", str(docs), "--body-only"])
    assert "note: made with other chunk settings before: everything is read again" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["index", "nowhere"], 2, "nowhere: No such file or directory"),
        (["index", "/"], 2, "holds far more than documents (adaptrag index / --yes)"),
        (["index", "encoder", "--name", "../x"], 2, "'../x' cannot name an index"),
        (["index", "encoder", "--chunk-tokens", "65"], 2, "exceed the encoder's window of 64"),
        (["indexes", "show", "nothing"], 3, "there is no index 'nothing'"),
        (["indexes", "verify", "nothing"], 3, "there is no index 'nothing'"),
        (["indexes", "remove", "nothing", "--yes"], 3, "there is no index 'nothing'"),
    ],
)
def test_failures_are_one_line_and_an_exit_code(arguments: list[str], code: int, said: str) -> None:
    done = runner.invoke(app, arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert runner.invoke(app, ["indexes", "list"]).stdout == ""


def test_the_home_folder_is_refused(private_home: Path) -> None:
    done = runner.invoke(app, ["index", str(private_home)])
    assert done.exit_code == 2
    assert "--yes" in done.stderr


def test_a_missing_encoder_names_the_command(docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    done = runner.invoke(app, ["index", str(docs), "--models-dir", "none", "--index-dir", "ix"])
    assert done.exit_code == 4
    assert done.stderr.count("\n") == 1
    assert "adaptrag models pull all-minilm-l6-v2" in done.stderr


def test_names_with_escapes_are_printed_harmless(docs: Path) -> None:
    (docs / "bad\x1b[31m[red].png").touch()
    done = runner.invoke(app, ["index", str(docs)])
    assert "\x1b" not in done.output
    assert "bad\\x1b[31m[red].png" in done.output


def test_show_tells_what_it_was_made_of_and_what_changed(docs: Path) -> None:
    runner.invoke(app, ["index", str(docs)])
    (docs / "b.txt").unlink()
    shown = json.loads(runner.invoke(app, ["indexes", "show", "my-docs", "--json"]).stdout)
    assert shown["encoder"]["name"] == "hash"
    assert shown["freshness"] == {
        "changed": 0, "deleted": 1, "added": 0, "deleted_documents": 0, "root_missing": False,
    }  # fmt: skip
    assert shown["update"] == f"adaptrag index '{docs}' --name my-docs --encoder hash"
    plain = runner.invoke(app, ["indexes", "show", "my-docs"]).stdout
    assert "freshness     changed 0, deleted 1, added 0" in plain.splitlines()
    (docs / "a.md").unlink()
    docs.rmdir()
    plain = runner.invoke(app, ["indexes", "show", "my-docs"]).stdout
    assert f"freshness     {docs} is not there" in plain.splitlines()


def test_show_counts_lines_that_left_a_corpus(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "a", "text": "One."}\n{"id": "b", "text": "Two."}\n')
    runner.invoke(app, ["index", str(corpus)])
    corpus.write_text('{"id": "b", "text": "Two."}\n')
    plain = runner.invoke(app, ["indexes", "show", "corpus"]).stdout
    assert "freshness     changed 1, deleted 0, added 0; 1 document gone from what changed" in plain.splitlines()


def test_verify_passes_and_names_a_damaged_file(docs: Path) -> None:
    runner.invoke(app, ["index", str(docs), "--index-dir", "ix"])
    good = runner.invoke(app, ["indexes", "verify", "my-docs", "--index-dir", "ix"])
    assert good.stdout.startswith("my-docs  ok  13 files, ")
    path = Path("ix/my-docs/generations/g000001/chunks.jsonl")
    path.write_bytes(path.read_bytes().replace(b"seven", b"eight"))
    bad = runner.invoke(app, ["indexes", "verify", "my-docs", "--index-dir", "ix"])
    assert (bad.exit_code, bad.stdout) == (3, "")
    assert "chunks.jsonl fails its checksum" in bad.stderr
    assert "--rebuild" in bad.stderr


def test_remove_asks_first(docs: Path) -> None:
    runner.invoke(app, ["index", str(docs), "--index-dir", "ix"])
    refused = runner.invoke(app, ["indexes", "remove", "my-docs", "--index-dir", "ix"], input="n\n")
    for stopped in (refused, runner.invoke(app, ["indexes", "remove", "my-docs", "--index-dir", "ix"], input="")):
        assert stopped.exit_code == 130
        assert stopped.stderr.endswith("adaptrag: stopped; index 'my-docs' is still there\n")
    assert Path("ix/my-docs").is_dir()
    accepted = runner.invoke(app, ["indexes", "remove", "my-docs", "--index-dir", "ix"], input="y\n")
    assert accepted.exit_code == 0
    assert not Path("ix/my-docs").exists()
    assert json.loads(runner.invoke(app, ["indexes", "list", "--index-dir", "ix", "--json"]).stdout)["indexes"] == []


def test_an_unchanged_folder_imports_nothing_heavy(docs: Path) -> None:
    runner.invoke(app, ["index", str(docs), "--index-dir", "ix"])
    code = fresh_interpreter() + (
        f"app([{str(docs)!r}, '--index-dir', 'ix', '--json'], standalone_mode=False);"
        "heavy = {'faiss', 'torch', 'onnxruntime', 'transformers', 'sentence_transformers', 'semantic_text_splitter'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["documents_unchanged"] == 2
    assert done.stderr == "[]\n"


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT to a child")
def test_ctrl_c_keeps_what_is_done(docs: Path) -> None:
    for number in range(100):
        (docs / f"n{number:03}.txt").write_text(f"Text number {number}.")
    code = fresh_interpreter() + (
        "\nclass Slow(HashEncoder):\n"
        "    def encode_documents(self, texts):\n"
        "        if self.texts:\n"
        "            print('waiting', flush=True); sys.stdin.read()\n"
        "        return super().encode_documents(texts)\n"
        "encoders.load_encoder = lambda *args, **kw: Slow(Path('encoder'))\n"
        f"app([{str(docs)!r}, '--index-dir', 'ix'])"
    )
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    child.send_signal(signal.SIGINT)
    _, talk = child.communicate()
    assert child.returncode == 130
    assert talk.splitlines()[-1] == (
        "adaptrag: stopped; 64 embedded chunks are kept (run the same command again to continue)"
    )
    done = runner.invoke(app, ["index", str(docs), "--index-dir", "ix", "--json"])
    assert json.loads(done.stdout)["chunks_embedded"] == 102 - 64


def test_plain_progress_is_one_line_per_ten_per_cent(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter(range(100))
    progress = BuildProgress(stage="embedding", chunks=50, chunks_to_embed=40, characters_to_embed=4000)
    with showing_build(clock=lambda: float(next(seconds))) as show:
        show(BuildProgress(stage="checking", files_total=3))
        show(BuildProgress(stage="reading", files_total=3))
        for done in range(0, 41, 2):
            show(replace(progress, chunks_embedded=done, characters_embedded=100 * done))
    lines = capsys.readouterr().err.splitlines()
    assert lines[:4] == [
        "reading 3 files",
        "embedding 40 of 50 chunks",
        "embedding: 10 % (4 of 40 chunks, 4.0 chunks/s, about 9 s left)",
        "embedding: 20 % (8 of 40 chunks, 4.0 chunks/s, about 8 s left)",
    ]
    assert len(lines) == 12
    assert lines[-1] == "embedding: 100 % (40 of 40 chunks, 4.0 chunks/s, about 0 s left)"


def test_a_slow_machine_is_not_told_that_it_stands_still(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter((0.0, 10.0, 10.0, 10.5))
    progress = BuildProgress(stage="embedding", chunks=50, chunks_to_embed=40, characters_to_embed=40)
    with showing_build(clock=lambda: next(seconds)) as show:
        show(progress)
        show(replace(progress, chunks_embedded=4, characters_embedded=4))
    assert "4 of 40 chunks, 0.4 chunks/s" in capsys.readouterr().err


def test_a_terminal_shows_bars(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with showing_build() as show:
        show(BuildProgress(stage="checking", files_total=3, files_done=3))
        show(BuildProgress(stage="embedding", chunks_to_embed=10, chunks_embedded=10, characters_to_embed=1,
                           characters_embedded=1))  # fmt: skip
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "embedding" in shown.err
    assert "10 of 10 chunks" in shown.err
