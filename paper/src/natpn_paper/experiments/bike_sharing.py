"""Table 3 and its parts in the appendix: rentals in one season as numbers and as counts, with the others left out."""

from natpn_paper.experiments.base import ROC, Experiment, View
from natpn_paper.experiments.models import SINGLE_NUMBERS, Setting
from natpn_paper.experiments.tables import Training

SETTING = Setting((16, 3), patience=50, max_epochs=200, learning_rate=1e-2, batch_size=256, flow=("maf", 8))
OOD = tuple(f"{season} Epist." for season in ("Winter", "Spring", "Autumn", "OODom"))
COLUMNS = ("RMSE", "Calibration", *OOD)
NORMAL, POISSON = "bike-sharing-normal", "bike-sharing-poisson"

EXPERIMENT = Experiment(
    "bike-sharing",
    "Bike Sharing, trained on one season, Normal and Poisson",
    (NORMAL, POISSON),
    SINGLE_NUMBERS,
    Training("normal", data={NORMAL: "bike-sharing", POISSON: "bike-sharing"}, default=SETTING),
    (
        View("bike-sharing", NORMAL, COLUMNS, suffix="-Normal"),
        View("bike-sharing", POISSON, COLUMNS, suffix="-Poisson"),
        View("bike-sharing-app", NORMAL, COLUMNS, suffix="-Normal"),
        View("auroc-bikesharing", NORMAL, OOD, prefix=ROC, suffix="-Normal"),
        View("auroc-bikesharing", POISSON, OOD, prefix=ROC, suffix="-Poisson"),
    ),
    needs=("bike-sharing",),
)
