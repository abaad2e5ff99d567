"""What a fitted model makes of unlabelled rows that it meets in use."""

import copy
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from natpn.estimators.data_estimator import DataEstimator, make_frame
from natpn.model import Calibration, Model
from natpn.model.importance import importance
from natpn.model.suggestions import Suggestions
from natpn.tabular.input_tables import is_pandas


class InUse(DataEstimator):
    """An estimator that adapts to rows, explains them, and says which to label."""

    # Set by fit.
    model_: Model

    @property
    def calibration_(self) -> Calibration:
        """What held-out rows showed."""
        return self.model_.calibration

    def adapt(self, X: Any) -> Self:
        """Return a copy whose intervals and prediction sets hold for rows of another distribution of inputs.

        They are conformal with weights: calibration rows that are like the rows in X count for more. That holds if
        targets depend on inputs as before, as far as the weights are right. Where calibration rows like those in X are
        too few, intervals are infinite and sets have all classes. Nothing else changes.

        Args:
            X: Unlabelled rows of the new distribution, at least some hundred; the rows to predict themselves will do.

        Raises:
            ValueError: If the model was not fitted with calibrate="conformal".

        Example:
            >>> import numpy as np
            >>> from natpn import NatPNRegressor
            >>> lot = np.random.default_rng(0)
            >>> X = lot.normal(size=(600, 1))
            >>> model = NatPNRegressor(calibrate="conformal", max_epochs=2, random_state=0)
            >>> model = model.fit(X, X[:, 0] ** 2 * lot.normal(size=600))
            >>> calibration = model.adapt(lot.normal(size=(300, 1)) + 0.5).calibration_
            >>> 10 < calibration.effective_rows < 60 == len(calibration.scores)
            True
        """
        rows = self._rows(X)
        adapted = copy.copy(self)
        adapted.model_ = self.model_.adapted(rows)
        endless = np.concatenate([np.isinf(part.limits(0.9)) for part in adapted.model_.answers(rows)])
        problem = adapted.calibration_.too_few(float(endless.mean()))
        if problem:
            warnings.warn(f"X: {problem}", stacklevel=2)
        return adapted

    def explain(self, X: Any) -> Any:
        """Return why rows of a table are unfamiliar, in named columns, in the frame library that X came in.

        `surprise` is how far a row is from ordinary ones: 0 is the median of held-out rows, 1 their first percentile.
        `adds_` and a column's name is what that column adds to it, so these sum to the surprise. `column` is the one
        that adds the most, `value` what stands there, `familiar` what would make the row more familiar there, both as
        text, "" if it is missing or not known, and `reason` says it in a few words.

        `docs/explain.md` says how it is found. It takes about as long as three to four predictions.

        Raises:
            ValueError: If the model was not fitted on a table.

        Example:
            >>> import numpy as np
            >>> from natpn import NatPNRegressor
            >>> lot = np.random.default_rng(0)
            >>> X = lot.normal(size=(300, 2))
            >>> model = NatPNRegressor(max_epochs=2, random_state=0).fit(X, X[:, 0])
            >>> model.explain([[0.1, 50.0]])["reason"][0]
            'column 1 50 is beyond 3.06604'
        """
        rows = self._rows(X)
        return make_frame(self.model_.explain(rows).columns(), X)

    def suggest(self, X: Any, n: int = 20) -> NDArray[np.intp]:
        """Return the numbers of the rows to label next, the one whose label would teach most first.

        A label teaches much if little is known of its row and of many rows like it; noise is not counted. Rows that
        are chosen together differ. Of more than 3,000 rows, 3,000 are compared, drawn at random.

        Args:
            X: Unlabelled rows, such as those that will be predicted.
            n: How many to label.

        Example:
            >>> import numpy as np
            >>> from natpn import NatPNRegressor
            >>> lot = np.random.default_rng(0)
            >>> X = lot.normal(size=(300, 2))
            >>> model = NatPNRegressor(max_epochs=2, random_state=0).fit(X, X[:, 0])
            >>> new = lot.normal(size=(100, 2))
            >>> new[:30] += 4  # a kind of rows that training lacks
            >>> int((model.suggest(new, 10) < 30).sum()) >= 7
            True
        """
        return self.suggestions(X, n).rows

    def suggestions(self, X: Any, n: int = 20) -> Suggestions:
        """Return the same with `shares`: how much of what is not known of all rows each label would take away."""
        return self.model_.suggestions(self._rows(X), n)

    def importance(self, X: Any, y: Any, exposure: ArrayLike | None = None, random_state: int = 0) -> Any:
        """Return how much predictions depend on each column of a table, in the frame library that X came in.

        Each column is shuffled among the rows, the others stay. `importance` is by how much the loss of a row grows on
        average: the CRPS of numbers and counts, in the unit of the target, or −log p of classes and vectors, in nats.
        `error` is its standard error: within two of them a column may not matter. The most important comes first.

        Args:
            X: Rows with known targets, at best none of training; of many rows some hundred are used.
            y: Their targets.
            exposure: As in the fit.
            random_state: Chooses rows and shuffles.

        Raises:
            ValueError: If the model was not fitted on a table, or X and y are not as long.

        Example:
            >>> import numpy as np
            >>> from natpn import NatPNRegressor
            >>> lot = np.random.default_rng(0)
            >>> X = lot.normal(size=(400, 3))
            >>> model = NatPNRegressor(max_epochs=9, random_state=0).fit(X[:300], X[:300, 1])
            >>> model.importance(X[300:], X[300:, 1])["column"][0]
            'x1'
        """
        rows, exposures = self._exposed_rows(X, exposure)
        found = importance(self.model_, rows, np.asarray(y), exposures, random_state).columns()
        return make_frame(found, None if is_pandas(X) else X)  # its rows are not those of X
