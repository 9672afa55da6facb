"""What every test gets: a private home, no network, and (when asked for) small real models fetched once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import filelock
import hypothesis
import platformdirs
import pytest

from network_guard import NetworkGuard

ROOT = Path(__file__).parent.parent
# Captured at import, before any test replaces the home folder.
MODELS_DIR = Path(
    os.environ.get("ADAPTRAG_TEST_MODELS") or Path(platformdirs.user_cache_dir("adaptrag")) / "test-models"
).absolute()
SMALL_LLM = "qwen2.5-coder-0.5b-instruct"
ENCODER = "all-minilm-l6-v2"

# A test run in the background inherits an ignored SIGINT, and so would the children that are sent one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(ROOT / ".hypothesis"))  # tests change the working folder
hypothesis.settings.register_profile("adaptrag", deadline=None, database=None, print_blob=True)
hypothesis.settings.load_profile("adaptrag")


guard = NetworkGuard()
sys.addaudithook(guard)


@pytest.fixture(autouse=True)
def network_attempts() -> Iterator[list[str]]:
    """Refuse the network during the test, and fail it if anything tried."""
    guard.attempts.clear()
    guard.active = True
    yield guard.attempts
    guard.active = False
    assert not guard.attempts, "the test reached for the network"


@pytest.fixture(autouse=True)
def private_home(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test its own home, configuration and data folders; its working folder is `tmp_path`."""
    home = tmp_path_factory.mktemp("home")
    for variable in [name for name in os.environ if name.startswith(("ADAPTRAG_", "XDG_"))]:
        monkeypatch.delenv(variable)
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(home))
    # A plain terminal of known width; some of these make rich print colours even into a pipe.
    for variable in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TERMINAL_WIDTH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    return home


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """Folder with the small models: fetched by the product itself, once, and verified by hash.

    Session fixtures are made before a test's own ones, so the network is still open here.
    """
    from adaptrag_cli.models.download import ensure_models

    MODELS_DIR.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(MODELS_DIR / ".tests.lock"):  # test runs side by side wait for the first one's download
        ensure_models([SMALL_LLM, ENCODER], MODELS_DIR)
    return MODELS_DIR


@pytest.fixture(scope="session")
def small_llm_path(models_dir: Path) -> Path:
    """The smallest model that answers in a phrase: Qwen2.5-Coder-0.5B-Instruct, Q4_K_M."""
    from adaptrag_cli.models.files import locate_model

    return locate_model(SMALL_LLM, models_dir).path


@pytest.fixture(scope="session")
def encoder_dir(models_dir: Path) -> Path:
    """The folder of all-MiniLM-L6-v2 with its exported form."""
    from adaptrag_cli.models.files import locate_encoder

    return locate_encoder(ENCODER, models_dir).folder
