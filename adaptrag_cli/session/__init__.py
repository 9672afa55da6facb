"""Open everything a question needs, once: strategy, index, encoder, model. The command line and the interface share it.

Cheap checks come first (`plan`), so that a misspelt name is told before a gigabyte is loaded. A front end that goes on
with other settings hands its session in, and only what the change concerns is loaded anew (`session`).
"""

from adaptrag_cli.session.indexes import OpenIndex, open_index_for
from adaptrag_cli.session.measured import encoder_warnings
from adaptrag_cli.session.plan import (
    ModelLoad,
    Plan,
    index_dir_of,
    model_load_of,
    models_dir_of,
    plan_session,
)
from adaptrag_cli.session.session import Session, load_model, load_models, open_session, resources_of

__all__ = [
    "ModelLoad",
    "OpenIndex",
    "Plan",
    "Session",
    "encoder_warnings",
    "index_dir_of",
    "load_model",
    "load_models",
    "model_load_of",
    "models_dir_of",
    "open_index_for",
    "open_session",
    "plan_session",
    "resources_of",
]
