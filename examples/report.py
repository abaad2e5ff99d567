"""Write a report on a model of the digits 0 to 7, with 8 and 9 as out-of-distribution rows.

python examples/report.py [FILE]        needs pandas and the report: pip install -e '.[report]' pandas

The picture docs/figures/report.png is the top of the page:
chromium --headless --hide-scrollbars --force-device-scale-factor=0.8 --window-size=820,2150 --screenshot report.html
"""

import sys
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from natpn import NatPNClassifier
from natpn.report import render


def write(path: Path) -> None:
    X, y = load_digits(return_X_y=True, as_frame=True)
    known = y < 8
    X_train, X_test, y_train, y_test = train_test_split(X[known], y[known], test_size=0.3, random_state=0)
    model = NatPNClassifier(random_state=0).fit(X_train, y_train)
    about = {"title": "Handwritten digits, 0 to 7", "name": "digits", "source": "digits that were held out"}
    page = render(model, X_test, y_test, ood=X[~known], **about)
    path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "report.html"))
