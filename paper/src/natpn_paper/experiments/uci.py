"""Table 4: Kin8nm and Concrete, each with the others as OOD sets."""

from natpn_paper.experiments.base import Experiment, View
from natpn_paper.experiments.models import NUMBERS, Setting
from natpn_paper.experiments.tables import Training


def _columns(*others: str) -> tuple[str, ...]:
    return ("RMSE", "Calibration", *(f"{other} {kind}" for other in others for kind in ("Alea.", "Epist.")))


def _setting(patience: int, batch_size: int) -> Setting:
    return Setting(
        (16, 2),
        patience=patience,
        max_epochs=300,
        density_phases=False,
        learning_rate=5e-3,
        batch_size=batch_size,
    )


EXPERIMENT = Experiment(
    "uci",
    "Kin8nm and Concrete",
    ("kin8nm", "concrete"),
    NUMBERS,
    Training("normal", settings={"kin8nm": _setting(30, 256), "concrete": _setting(50, 32)}),
    (
        View("uci", "kin8nm", _columns("Energy", "Concrete"), "kin8nm"),
        View("uci", "concrete", _columns("Energy", "Kin8nm"), "concrete"),
    ),
    needs=("kin8nm", "concrete", "energy"),
)
