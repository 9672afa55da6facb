"""What importing costs, what is declared, and what may stand where.

The static contracts of pyproject.toml cannot tell a lazy import from an eager one; a fresh interpreter can.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import adaptrag_cli

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "adaptrag_cli"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Seconds and hundreds of megabytes (torch 1.1 s, sentence_transformers 5 s), so they are imported where they are used.
HEAVY = {
    "bs4",
    "docx",
    "faiss",
    "gguf",
    "huggingface_hub",
    "llama_cpp",
    "lxml",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "peft",
    "pptx",
    "pypdfium2",
    "scipy",
    "semantic_text_splitter",
    "sentence_transformers",
    "textual",
    "tokenizers",
    "torch",
    "transformers",
}
FRONT_END = {"rich", "typer", "click", "textual"}


def modules_after(code: str, tmp_path: Path) -> set[str]:
    """Top-level names in `sys.modules` after the code ran in a fresh interpreter."""
    tell = "\nimport json, sys\nprint('\\n' + json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", code + tell], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def run_command(*words: str) -> str:
    return (
        f"import sys\nsys.argv = {['adaptrag', *words]!r}\n"
        "from adaptrag_cli.cli.app import main\ntry:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code"
    )


@pytest.mark.parametrize(
    "words", [("--help",), ("ask", "--help"), ("index", "--help"), ("tui", "--help"), ("config",)], ids=" ".join
)
def test_a_command_that_needs_no_model_imports_nothing_heavy(words: tuple[str, ...], tmp_path: Path) -> None:
    loaded = modules_after(run_command(*words), tmp_path)
    assert "typer" in loaded
    assert loaded & (HEAVY | {"numpy"}) == set()


def test_the_engine_loads_no_backend_and_no_front_end(tmp_path: Path) -> None:
    loaded = modules_after("import adaptrag_cli.engine, adaptrag_cli.session.session", tmp_path)
    assert loaded & (HEAVY | FRONT_END) == set()


def test_every_module_imports_and_none_imports_a_heavy_library_at_its_top(tmp_path: Path) -> None:
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in SOURCES
        if path.name != "__main__.py"
    ]
    is_screen = [name.startswith("adaptrag_cli.tui") for name in names]
    rest = [name for name, is_part in zip(names, is_screen, strict=True) if not is_part]
    assert modules_after("\n".join(f"import {name}" for name in rest), tmp_path) & HEAVY == set()
    assert modules_after("\n".join(f"import {name}" for name in names), tmp_path) & HEAVY == {"textual"}


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if path.name == "__init__.py"], ids=lambda path: path.parent.name
)
def test_a_package_file_holds_a_docstring_and_nothing_else(path: Path) -> None:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    assert isinstance(body[0], ast.Expr)
    assert isinstance(body[0].value, ast.Constant)
    rest = [ast.unparse(node) for node in body[1:]]
    assert rest == ([f"__version__ = {adaptrag_cli.__version__!r}"] if path.parent == PACKAGE else [])


def imported_names(paths: list[Path]) -> Iterator[tuple[str, Path]]:
    """Top-level names of all absolute imports."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((alias.name.partition(".")[0], path) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield node.module.partition(".")[0], path


def distributions_of(paths: list[Path], own: set[str]) -> dict[str, str]:
    """Normalised name of each third-party distribution that is imported, and one file that does."""
    known = packages_distributions()
    needed: dict[str, str] = {}
    for name, path in imported_names(paths):
        if name not in sys.stdlib_module_names and name not in own:
            distribution = known.get(name, [name])[0]
            needed[canonicalize_name(distribution)] = str(path.relative_to(ROOT))
    return needed


def declared(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def test_every_import_is_declared_and_every_declaration_is_used() -> None:
    needed = distributions_of(SOURCES, {"adaptrag_cli"})
    runtime = declared(PROJECT["dependencies"])
    offered = runtime | declared(PROJECT["optional-dependencies"]["train"])
    assert {name: path for name, path in needed.items() if name not in offered} == {}
    # pip is run as a module; onnx is what torch.onnx.export writes with.
    assert runtime - set(needed) == {"pip", "onnx"}


def test_every_import_of_the_tests_is_declared() -> None:
    own = {"adaptrag_cli", *(path.stem for path in TESTS)}
    known = declared([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]])
    assert {name: path for name, path in distributions_of(TESTS, own).items() if name not in known} == {}


def dangerous(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (name for name in names if name in {"pickle", "marshal", "shelve", "dill", "joblib"})
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in {"eval", "exec", "os.system", "os.popen", "torch.load"}:
                yield called
            for keyword in node.keywords:
                is_on = not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
                if keyword.arg in {"shell", "allow_pickle", "trust_remote_code"} and is_on:
                    yield f"{called}({keyword.arg}=...)"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_can_run_what_a_file_holds(path: Path) -> None:
    assert list(dangerous(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from marshal import loads",
        "eval(x)",
        "run(x, shell=True)",
        "np.load(p, allow_pickle=y)",
        "load(n, trust_remote_code=True)",
    ],
)
def test_the_check_above_sees_each_danger(code: str) -> None:
    assert list(dangerous(ast.parse(code)))


def committed_files() -> list[Path]:
    """Files that git tracks or would track."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_package_registry_host() -> None:
    # Models come through the machine's own pip, so whatever index it is set up with is the one that is used.
    dot = re.escape(".")
    hosts = [
        ("py" + "pi", "org"),
        ("python" + "hosted", "org"),
        ("download", "py" + "torch", "org"),
        ("ana" + "conda", "org"),
    ]
    pattern = re.compile("|".join(dot.join(parts) for parts in hosts).encode(), re.IGNORECASE)
    assert [str(path.relative_to(ROOT)) for path in committed_files() if pattern.search(path.read_bytes())] == []


def test_the_top_of_the_repository_stays_small() -> None:
    top = {path.relative_to(ROOT).parts[0] for path in committed_files()}
    fixed = {"adaptrag_cli", "indexes", "tests", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"}
    assert {name for name in top if not name.startswith(".")} == fixed


def test_the_changelog_opens_with_unreleased_and_then_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert headings[:2] == ["Unreleased", adaptrag_cli.__version__]
