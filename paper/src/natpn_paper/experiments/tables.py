"""One run of a table: load, build, fit, score. The tables differ in data, target and columns alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from natpn_paper.experiments.base import Outcome, Run
from natpn_paper.experiments.models import Setting, build


@dataclass(frozen=True)
class Training:
    """How a table makes its runs; called with a run, it makes it.

    Attributes:
        data: The data set of each part of the experiment, where its name differs.
        target: "classes", "normal" or "poisson"; by the last word of the part if it is one of these.
        settings: What the paper chose, by part.
        names: What the paper's columns call OOD sets.
        shown: The OOD set that R-PriorNet is trained with; noise if None.
        default: For parts that are not in `settings`.
        quick_rows: Of a quick run.
    """

    target: str
    data: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    shown: str | None = None
    default: Setting = field(default_factory=Setting)
    quick_rows: int = 200

    def __call__(self, run: Run) -> Outcome:
        """Make a run."""
        from natpn_paper import datasets
        from natpn_paper.experiments.scoring import score

        data = datasets.load(self.data.get(run.data, run.data), seed=run.seed, limit=run.rows(self.quick_rows))
        last = run.data.rpartition("-")[2]
        target = last if last in ("normal", "poisson") else self.target
        X, y = data.train
        ood = data.ood.get(self.shown) if self.shown else None
        model = build(run, target, X.shape[1:], self.settings.get(run.data, self.default), ood)
        model.fit(X, y, X_val=data.validation[0], y_val=data.validation[1])
        return Outcome(score(model, data, self.names), note=data.note)
