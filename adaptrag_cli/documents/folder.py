"""The folder walk: which files are read, and why the others are not.

Every entry that is not walked into counts once in `Scan.files_seen`: a file, a link, a special file, and a folder that
is left out as a whole (its name then ends with `/`). So `files_seen == len(files) + len(skipped)` always holds.

Left out as a whole: hidden folders (a name that starts with a dot, so `.git` and `.venv` too), caches and packages of
build tools (`__pycache__`, `node_modules`, a folder with `pyvenv.cfg`), ignored and excluded folders, the folders in
`avoid`. Links are never followed: inside the folder their target is read where it lies, outside it is not ours to read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from adaptrag_cli.documents.formats import format_of
from adaptrag_cli.errors import ConfigError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_BUILD_FOLDERS = frozenset({"__pycache__", "node_modules", "__pypackages__"})


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file that will be read."""

    path: Path
    name: str
    """Relative to the scanned folder, with `/`; bytes that are no UTF-8 are written as `\\xff`."""
    size: int
    mtime_ns: int
    alone: bool = False
    """It is itself the path that is indexed, so its parts need no file name in front."""


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A file, folder or part of a file that is not indexed, and why."""

    document: str
    reason: str
    transient: bool = False
    """It may be readable next time, though its bytes are the same (a timeout, a missing right)."""


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What a walk found, both parts sorted by name."""

    root: Path
    """The folder that `SourceFile.name` is relative to."""
    files: tuple[SourceFile, ...]
    skipped: tuple[Skipped, ...]
    files_seen: int


def refuse_dangerous_root(path: Path, yes: bool) -> None:
    """Refuse to index the root of a file system, the home folder or a folder above it unless `yes`.

    Raises:
        ConfigError: with the command that does it anyway.
    """
    real = path.resolve()
    home = Path.home().resolve()
    if not yes and (real == Path(real.anchor) or real == home or real in home.parents):
        raise ConfigError(f"{real} holds far more than documents", f"adaptrag index {path} --yes")


def scan(
    path: Path,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    use_gitignore: bool = True,
    avoid: Sequence[Path] = (),
) -> Scan:
    """List the readable documents below `path`, or `path` itself when it is a file.

    `include` and `exclude` are patterns as in `.gitignore`. Reads no document.

    Raises:
        ConfigError: the path is missing, or is neither file nor folder.
    """
    try:
        kind = path.stat().st_mode
    except OSError as error:
        raise ConfigError(f"{path}: {_os_reason(error)}", "give a folder or a file that exists") from error
    if stat.S_ISDIR(kind):
        return _Walk(path.resolve(), include, exclude, use_gitignore, avoid).run()
    if not stat.S_ISREG(kind):
        raise ConfigError(f"{path} is neither a folder nor a file", "give a folder or a file")
    return _scan_file(path.resolve())


def _scan_file(path: Path) -> Scan:
    name = _printable_name(path.name)
    if format_of(path.name) is None:
        return Scan(root=path.parent, files=(), skipped=(_unsupported(name),), files_seen=1)
    status = path.stat()
    file = SourceFile(path=path, name=name, size=status.st_size, mtime_ns=status.st_mtime_ns, alone=True)
    return Scan(root=path.parent, files=(file,), skipped=(), files_seen=1)


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """A `.gitignore` and the folder it speaks for, relative to the walk's root (`../` parts stripped to `prefix`)."""

    spec: GitIgnoreSpec
    folder: str
    """Folder inside the root, with a trailing `/`; empty for the root and everything above it."""
    prefix: str = ""
    """Path from the `.gitignore`'s folder down to the root, with a trailing `/`."""

    def verdict(self, name: str) -> bool | None:
        """Whether `name` is ignored (True), kept by a negation (False) or not spoken of (None)."""
        return self.spec.check_file(self.prefix + name[len(self.folder) :]).include


@dataclass
class _Walk:
    root: Path
    include: Sequence[str]
    exclude: Sequence[str]
    use_gitignore: bool
    avoid: Sequence[Path]
    files: list[SourceFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def run(self) -> Scan:
        self._included = _spec(self.include)
        self._excluded = _spec(self.exclude)
        self._avoided = frozenset(p.resolve() for p in self.avoid)
        self._folder(self.root, "", self._rules_above() if self.use_gitignore else ())
        self.files.sort(key=lambda f: f.name)
        self.skipped.sort(key=lambda s: s.document)
        return Scan(
            root=self.root,
            files=tuple(self.files),
            skipped=tuple(self.skipped),
            files_seen=len(self.files) + len(self.skipped),
        )

    def _folder(self, folder: Path, name: str, rules: tuple[_Rules, ...]) -> None:
        stack = [(folder, name, rules)]
        while stack:
            folder, name, rules = stack.pop()
            try:
                entries = list(os.scandir(folder))
            except OSError as error:
                self._skip(name or "./", f"cannot be read: {_os_reason(error)}")
                continue
            if self.use_gitignore:
                rules = (*rules, *_rules_in(folder, name))
            for entry in entries:
                relative = name + entry.name
                if not entry.is_dir(follow_symlinks=False):
                    self._file(entry, relative, rules)
                elif reason := self._folder_reason(entry, relative + "/", rules):
                    self._skip(relative + "/", reason)
                else:
                    stack.append((Path(entry.path), relative + "/", rules))

    def _folder_reason(self, entry: os.DirEntry[str], name: str, rules: tuple[_Rules, ...]) -> str:
        if entry.name.startswith("."):
            return "hidden folder"
        if entry.name in _BUILD_FOLDERS or Path(entry.path, "pyvenv.cfg").is_file():
            return "folder of a build tool"
        if Path(entry.path) in self._avoided:
            return "folder of our own indexes"
        if self._excluded.match_file(name):
            return "left out by --exclude"
        if _is_ignored(name, rules):
            return "ignored by .gitignore"
        return ""

    def _file(self, entry: os.DirEntry[str], name: str, rules: tuple[_Rules, ...]) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            self._skip(name, f"cannot be read: {_os_reason(error)}")
            return
        if reason := self._file_reason(entry, name, status, rules):
            self._skip(name, reason)
            return
        self.files.append(
            SourceFile(
                path=Path(entry.path), name=_printable_name(name), size=status.st_size, mtime_ns=status.st_mtime_ns
            )
        )

    def _file_reason(
        self, entry: os.DirEntry[str], name: str, status: os.stat_result, rules: tuple[_Rules, ...]
    ) -> str:
        if stat.S_ISLNK(status.st_mode):
            return self._link_reason(Path(entry.path))
        if not stat.S_ISREG(status.st_mode):
            return _special_kind(status.st_mode)
        if entry.name.startswith("."):
            return "hidden file"
        if self._excluded.match_file(name):
            return "left out by --exclude"
        if self.include and not self._included.match_file(name):
            return "not named by --include"
        if _is_ignored(name, rules):
            return "ignored by .gitignore"
        if format_of(entry.name) is None:
            return _unsupported(name).reason
        if not os.access(entry.path, os.R_OK):
            return "cannot be read: Permission denied"
        return ""

    def _link_reason(self, link: Path) -> str:
        try:
            target = link.resolve(strict=True)
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop, before Python 3.13
            missing = isinstance(error, FileNotFoundError)
            return "link to a missing file" if missing else "link that leads nowhere (a loop?)"
        if not target.is_relative_to(self.root):
            return "link out of the folder"
        return "link inside the folder (its target is read where it lies)"

    def _skip(self, name: str, reason: str) -> None:
        self.skipped.append(Skipped(document=_printable_name(name), reason=reason))

    def _rules_above(self) -> tuple[_Rules, ...]:
        """Rules of the enclosing git repository, unless they ignore the very folder that was asked for."""
        parents = list(self.root.parents)
        repository = next((i for i, p in enumerate([self.root, *parents]) if (p / ".git").exists()), 0)
        found: list[_Rules] = []
        for parent in reversed(parents[:repository]):
            prefix = self.root.relative_to(parent).as_posix() + "/"
            found.extend(_rules_in(parent, "", prefix))
        return () if _is_ignored("", tuple(found)) else tuple(found)


def _rules_in(folder: Path, name: str, prefix: str = "") -> Iterator[_Rules]:
    from pathspec import GitIgnoreSpec  # 40 ms; git's own precedence of negated patterns

    file = folder / ".gitignore"
    if not file.is_file():
        return
    try:
        lines = file.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:  # git goes on without it, too
        return
    yield _Rules(spec=GitIgnoreSpec.from_lines(_valid_patterns(lines)), folder=name, prefix=prefix)


def _valid_patterns(lines: Sequence[str]) -> Iterator[str]:
    """Leave out lines that pathspec refuses (git ignores them silently)."""
    from pathspec import GitIgnoreSpec

    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        yield line


def _is_ignored(name: str, rules: Sequence[_Rules]) -> bool:
    for rule in reversed(rules):  # the nearest .gitignore that speaks of the name decides
        if (verdict := rule.verdict(name)) is not None:
            return verdict
    return False


def _spec(patterns: Sequence[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise ConfigError(f"bad pattern among {', '.join(patterns)}: {error}", "see `man gitignore`") from error


def _special_kind(mode: int) -> str:
    kinds = ((stat.S_ISFIFO, "named pipe"), (stat.S_ISSOCK, "socket"))
    return next((kind for test, kind in kinds if test(mode)), "device")


def _unsupported(name: str) -> Skipped:
    suffix = Path(name).suffix
    return Skipped(document=name, reason=f"unsupported format {suffix}" if suffix else "unsupported format (no suffix)")


def _printable_name(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _os_reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
