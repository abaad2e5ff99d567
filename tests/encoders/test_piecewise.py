"""The piecewise-linear encoding, against numpy."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from natpn.encoders import PiecewiseLinear
from natpn.encoders.tabular import NumbersAndPieces, quantile_knots


def fitted(X: np.ndarray, knots: int = 8) -> PiecewiseLinear:
    return PiecewiseLinear(X.shape[1], knots).double().fit_knots(X)


def test_inside_it_is_interpolation() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)) ** 3
    encoding = fitted(X)
    knots = encoding.knots.numpy()
    np.testing.assert_allclose(knots, np.quantile(X, np.linspace(0, 1, 8), axis=0).T)
    x = rng.uniform(X.min(axis=0), X.max(axis=0), size=(200, 3))
    components = encoding(torch.from_numpy(x)).reshape(200, 3, 7).numpy()
    for column in range(3):
        for t in range(7):
            expected = np.interp(x[:, column], knots[column, t : t + 2], [0, 1])
            np.testing.assert_allclose(components[:, column, t], expected, atol=1e-12)


def test_outside_only_the_outer_component_moves_and_linearly() -> None:
    X = np.random.default_rng(0).normal(size=(500, 2))
    encoding = fitted(X)
    k = encoding.knots
    for distance in (1e-3, 1.0, 1e3, 1e9):
        above = encoding(k[:, -1] + distance).reshape(2, 7)
        torch.testing.assert_close(above[:, :-1], torch.ones(2, 6, dtype=torch.float64))
        torch.testing.assert_close(above[:, -1], 1 + distance / (k[:, -1] - k[:, -2]))
        below = encoding(k[:, 0] - distance).reshape(2, 7)
        torch.testing.assert_close(below[:, 1:], torch.zeros(2, 6, dtype=torch.float64))
        torch.testing.assert_close(below[:, 0], -distance / (k[:, 1] - k[:, 0]))


def test_number_can_be_read_back_everywhere() -> None:
    encoding = fitted(np.random.default_rng(0).normal(size=(500, 2)))
    x = torch.linspace(-50, 50, 401, dtype=torch.float64)[:, None].expand(-1, 2)
    components = encoding(x).reshape(401, 2, 7)
    torch.testing.assert_close(encoding.knots[:, 0] + (components * encoding.knots.diff()).sum(-1), x)


@pytest.mark.parametrize("value", [0.0, 3.0, -1e6, 1e-20])
def test_constant_column_shows_departures(value: float) -> None:
    encoding = PiecewiseLinear(1, 8).fit_knots(np.full((20, 1), value))
    here, above, below = (encoding(torch.tensor([value + step * max(1, abs(value))])) for step in (0, 10, -10))
    assert (encoding.knots.diff() > 0).all()
    assert here.abs().max() <= 1
    assert 5 < above.max() < 1000
    assert -1000 < below.min() < -5


def test_column_constant_but_for_rounding_is_constant() -> None:
    X = np.float32(3) + np.float32(2.0**-22) * np.arange(4)[:, None]
    knots = PiecewiseLinear(1, 8).fit_knots(X).knots[0]
    torch.testing.assert_close(knots[-1] - knots[0], torch.tensor(3.0))


def test_knots_that_meet_when_rounded_are_parted() -> None:
    one, next_one = 1.0, 1 + 2.0**-23  # neighbours in float32; the second quantile is a third of the way between them
    X = np.array([one] * 10 + [next_one] * 10 + list(range(2, 11)))[:, None]
    assert one < np.quantile(X, 1 / 3) < (one + next_one) / 2
    knots = PiecewiseLinear(1, 4).fit_knots(X).knots[0]
    assert knots[0] == one
    assert (knots.diff() > 0).all()


def test_knots_that_coincide_after_a_cast_give_no_nan() -> None:
    X = 100 + torch.rand(200, 1, generator=torch.Generator().manual_seed(0))
    encoding = PiecewiseLinear(1, 16).fit_knots(X).bfloat16()
    assert not (encoding.knots.diff() > 0).all()
    assert encoding(X.bfloat16()).isfinite().all()


def test_few_values_are_all_knots() -> None:
    X = np.tile([0.0, 1.0, 5.0], 10)[:, None]
    knots = fitted(X).knots[0]
    assert {0.0, 1.0, 5.0} <= set(knots.tolist())
    assert (knots[0], knots[-1]) == (0, 5)
    assert (knots.diff() > 0).all()


def test_frequent_value_leaves_its_places_to_the_others() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([np.zeros(900), rng.uniform(1, 2, size=100)])[:, None]
    knots = fitted(X, knots=10).knots[0]
    assert knots[0] == 0
    assert (knots[1:] >= 1).all()
    assert (knots.diff() > 0).all()
    assert knots.diff()[1:].max() < 0.35


@settings(deadline=None, max_examples=200)
@given(
    values=arrays.arrays(
        np.float64, st.integers(1, 40), elements=st.floats(-1e12, 1e12) | st.sampled_from([0.0, 1.0, 1 + 1e-7, 1e-40])
    ),
    n_knots=st.integers(2, 20),
    double=st.booleans(),
)
def test_any_column_gives_increasing_knots_and_finite_codes(values: np.ndarray, n_knots: int, double: bool) -> None:
    dtype = torch.float64 if double else torch.float32
    encoding = PiecewiseLinear(1, n_knots).to(dtype).fit_knots(values[:, None])
    assert (encoding.knots.diff() > 0).all()
    codes = encoding(torch.from_numpy(values)[:, None].to(dtype))
    assert codes.shape == (values.size, n_knots - 1)
    assert codes.min() >= -1e-6
    assert codes.max() <= 1 + 1e-6
    assert encoding(torch.tensor([[1e15], [-1e15]], dtype=dtype)).isfinite().all()


@pytest.mark.parametrize("n_knots", [2, 3, 16])
@pytest.mark.parametrize("n_distinct", [2, 3, 15, 16, 17, 40])
def test_as_many_knots_as_asked(n_knots: int, n_distinct: int) -> None:
    values = np.repeat(np.arange(n_distinct, dtype=float) ** 2, np.arange(n_distinct) % 3 * 20 + 1)
    knots = quantile_knots(values, n_knots)
    assert knots.shape == (n_knots,)
    assert (np.diff(knots) > 0).all()
    assert (knots[0], knots[-1]) == (values.min(), values.max())


def test_unfitted_knots_suit_standardised_numbers() -> None:
    knots = PiecewiseLinear(2, 16).knots
    assert (knots.diff() > 0).all()
    torch.testing.assert_close(knots, -knots.flip(-1))
    assert 1.5 < knots.max() < 3


def test_knots_are_saved_and_fixed_bounds_are_not() -> None:
    assert list(PiecewiseLinear(2, 16).state_dict()) == ["knots"]


def test_tensor_and_array_give_the_same_knots() -> None:
    X = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(PiecewiseLinear(2).fit_knots(X).knots, PiecewiseLinear(2).fit_knots(X.numpy()).knots)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((5, 3)), r"\(5, 3\), but \(rows, 2\)"),
        (np.zeros(5), r"\(5,\)"),
        (np.zeros((0, 2)), "at least one row"),
        (np.array([[0.0, np.nan], [1.0, 1.0]]), r"columns \[1\]"),
        (np.array([[np.inf, 1.0], [1.0, 1.0]]), r"columns \[0\]"),
    ],
)
def test_wrong_training_data_is_named(X: np.ndarray, message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=message):
            PiecewiseLinear(2).fit_knots(X)


def test_numbers_and_pieces():
    """The number itself, logarithmic beyond 4, and pieces of mean 0 and standard deviation 0.3 on the training data."""
    X = torch.randn(500, 3, generator=torch.Generator().manual_seed(0)).clamp(-3.9, 3.9)
    encoding = NumbersAndPieces(3, knots=5).fit_knots(X)
    encoded = encoding(X)
    assert encoded.shape == (500, 15)
    assert torch.equal(encoded[:, :3], X)
    torch.testing.assert_close(encoded[:, 3:].mean(0), torch.zeros(12), atol=1e-5, rtol=0)
    torch.testing.assert_close(encoded[:, 3:].std(0, correction=0), torch.full((12,), 0.3), atol=1e-4, rtol=0)
    far = encoding(torch.full((1, 3), -1e6))
    torch.testing.assert_close(far[0, :3], torch.full((3,), -4 - math.log1p(1e6 - 4)))
    assert bool((far[0, 3:].abs() < 5).all())
    again = NumbersAndPieces(3, knots=5)
    again.load_state_dict(encoding.state_dict())
    assert torch.equal(again(X), encoded)
