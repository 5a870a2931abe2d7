"""Balanced client participation in federated learning.

Client selection (:class:`Selector`, :class:`Client`), closed forms (:func:`theory`), simulation
(:func:`simulate`), training (:class:`Trainer`, :func:`load_data`, :func:`partition`,
:func:`sketch`) and comparisons of policies (:func:`compare`). ``agewise.flower`` has a strategy for
Flower.

>>> selector = Selector("markov-optimal", clients=100, cohort=15, seed=1)
>>> cohort = selector.select()
>>> selector.report(cohort.ids)
"""

from agewise._agewise import __version__
from agewise.aggregation import Aggregates
from agewise.callbacks import Callbacks
from agewise.client import Client
from agewise.closed_forms import PolicyTheory, Theory, theory
from agewise.experiment import (
    Preset,
    compare,
    extend_run,
    presets,
    read_run,
    resume_run,
    simulate,
)
from agewise.learning import (
    Dataset,
    Evaluation,
    Images,
    LocalReport,
    Partition,
    Trainer,
    average,
    fetch_data,
    load_data,
    partition,
)
from agewise.participation import Cohort, Failures, Participation
from agewise.policy import Needs, Reports, Round, Selects
from agewise.registry import AgeLaw, Policy, age_law, policies
from agewise.results import Estimate, ExperimentResult, PolicyResult
from agewise.selection import Selector
from agewise.sketches import sketch
from agewise.task import Task
from agewise.tracking import track_run

__all__ = [
    "AgeLaw",
    "Aggregates",
    "Callbacks",
    "Client",
    "Cohort",
    "Dataset",
    "Estimate",
    "Evaluation",
    "ExperimentResult",
    "Failures",
    "Images",
    "LocalReport",
    "Needs",
    "Participation",
    "Partition",
    "Policy",
    "PolicyResult",
    "PolicyTheory",
    "Preset",
    "Reports",
    "Round",
    "Selector",
    "Selects",
    "Task",
    "Theory",
    "Trainer",
    "__version__",
    "age_law",
    "average",
    "compare",
    "extend_run",
    "fetch_data",
    "load_data",
    "partition",
    "policies",
    "presets",
    "read_run",
    "resume_run",
    "simulate",
    "sketch",
    "theory",
    "track_run",
]
