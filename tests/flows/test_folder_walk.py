"""The folder walk: what is read, what is not and why; the counts add up."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from adaptrag_cli.documents.folder import Scan, refuse_dangerous_root, scan
from adaptrag_cli.errors import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    root.mkdir()
    return root


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")


def seen(found: Scan) -> tuple[list[str], dict[str, str]]:
    assert found.files_seen == len(found.files) + len(found.skipped)
    assert all(found.root / f.name == f.path for f in found.files)
    return [f.name for f in found.files], {s.document: s.reason for s in found.skipped}


def test_kinds_of_files(folder: Path) -> None:
    write(folder, "b.md", "a/c.TXT", "README", "photo.png", "noidea", ".env", ".git/config", "__pycache__/x.py")
    write(folder, "env/pyvenv.cfg", "env/lib/m.py", "node_modules/p/i.js")
    names, skipped = seen(scan(folder))
    assert names == ["README", "a/c.TXT", "b.md"]
    assert skipped == {
        ".env": "hidden file",
        ".git/": "hidden folder",
        "__pycache__/": "folder of a build tool",
        "env/": "folder of a build tool",
        "node_modules/": "folder of a build tool",
        "noidea": "unsupported format (no suffix)",
        "photo.png": "unsupported format .png",
    }


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files on this system")
def test_special_files_and_links(folder: Path, tmp_path: Path) -> None:
    write(folder, "real.md", "sub/deep.md")
    write(tmp_path, "outside/secret.md")
    os.mkfifo(folder / "pipe.md")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(folder / "socket.md"))
        for name, target in {
            "out.md": tmp_path / "outside/secret.md",
            "outdir": tmp_path / "outside",
            "in.md": folder / "real.md",
            "gone.md": folder / "missing.md",
            "loop": folder / "loop",
            "sub/up": folder,
        }.items():
            (folder / name).symlink_to(target)
        names, skipped = seen(scan(folder))
    assert names == ["real.md", "sub/deep.md"]
    inside = "link inside the folder (its target is read where it lies)"
    assert skipped == {
        "pipe.md": "named pipe",
        "socket.md": "socket",
        "out.md": "link out of the folder",
        "outdir": "link out of the folder",
        "in.md": inside,
        "sub/up": inside,
        "gone.md": "link to a missing file",
        "loop": "link that leads nowhere (a loop?)",
    }


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_files_and_folders(folder: Path) -> None:
    write(folder, "a.md", "closed/b.md")
    (folder / "a.md").chmod(0)
    (folder / "closed").chmod(0)
    try:
        names, skipped = seen(scan(folder))
    finally:
        (folder / "closed").chmod(0o700)
    assert names == []
    denied = "cannot be read: Permission denied"
    assert skipped == {"a.md": denied, "closed/": denied}


def test_gitignore_nested_with_negation(folder: Path) -> None:
    write(
        folder, "a.md", "a.log", "keep.log", "build/x.md", "sub/b.tmp.md", "sub/keep.tmp.md", "sub/only.md", "only.md"
    )
    (folder / ".gitignore").write_text("*.log\n!keep.log\nbuild/\n/only.md\n# note\n")
    (folder / "sub/.gitignore").write_text("*.tmp.md\n!keep.tmp.md\n")
    names, skipped = seen(scan(folder))
    assert names == ["a.md", "keep.log", "sub/keep.tmp.md", "sub/only.md"]
    ignored = {name for name, reason in skipped.items() if reason == "ignored by .gitignore"}
    assert ignored == {"a.log", "build/", "sub/b.tmp.md", "only.md"}
    names, _ = seen(scan(folder, use_gitignore=False))
    assert {"a.log", "build/x.md", "only.md"} <= set(names)


def test_the_deeper_gitignore_wins_and_an_ignored_folder_stays_shut(folder: Path) -> None:
    write(folder, "sub/a.log", "shut/b.md")
    (folder / ".gitignore").write_text("*.log\nshut\n!shut/b.md\n")
    (folder / "sub/.gitignore").write_text("!a.log\n")
    names, _ = seen(scan(folder))
    assert names == ["sub/a.log"]


def test_gitignore_of_the_enclosing_repository(folder: Path) -> None:
    write(folder, ".git/HEAD", "docs/a.md", "docs/draft.md", "ignored/c.md")
    (folder / ".gitignore").write_text("/docs/draft.md\nignored/\n")
    assert seen(scan(folder / "docs"))[0] == ["a.md"]
    assert seen(scan(folder / "ignored"))[0] == ["c.md"]  # it was asked for by name


def test_include_exclude_and_avoid(folder: Path) -> None:
    write(folder, "a.md", "b.txt", "old/c.md", "indexes/d.md")
    found = scan(folder, include=["*.md"], exclude=["old/"], avoid=[folder / "indexes"])
    names, skipped = seen(found)
    assert names == ["a.md"]
    assert skipped == {
        "b.txt": "not named by --include",
        "old/": "left out by --exclude",
        "indexes/": "folder of our own indexes",
    }


def test_a_single_file_is_a_scan_of_its_own(folder: Path) -> None:
    write(folder, "corpus.jsonl", "picture.png")
    found = scan(folder / "corpus.jsonl")
    assert seen(found) == (["corpus.jsonl"], {})
    assert found.files[0].alone
    assert found.files[0].size == 4
    assert seen(scan(folder / "picture.png")) == ([], {"picture.png": "unsupported format .png"})


@pytest.mark.skipif(os.name == "nt", reason="such names cannot exist there")
def test_names_that_are_no_utf8(folder: Path) -> None:
    (Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt"))).write_text("text")
    (file,) = scan(folder).files
    assert file.name == "caf\\xe9.txt"
    assert file.path.read_text() == "text"


def test_paths_that_cannot_be_scanned(folder: Path) -> None:
    with pytest.raises(ConfigError, match="missing: No such file or directory"):
        scan(folder / "missing")


def test_dangerous_roots(private_home: Path) -> None:
    (private_home / "docs").mkdir()
    for path in (Path("/"), private_home, private_home.parent, private_home / "docs" / ".."):
        with pytest.raises(ConfigError) as error:
            refuse_dangerous_root(path, yes=False)
        assert error.value.hint == f"adaptrag index {path} --yes"
        refuse_dangerous_root(path, yes=True)
    refuse_dangerous_root(private_home / "docs", yes=False)
