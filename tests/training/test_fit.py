"""What `fit` promises: it learns, keeps the best, repeats, and says what went wrong."""

import warnings

import pytest
import torch
from torch.testing import assert_close
from torch.utils.data import DataLoader, TensorDataset

from natpn import encoders, families
from natpn.densities import DENSITIES
from natpn.network import NaturalPosteriorEnsemble, NaturalPosteriorNetwork, default_network
from natpn.training import Paper, Staged, TrainingError, fit
from natpn.training.descent import Descent, descend, evaluate
from natpn.training.losses import BayesianLoss, PlainLoss, marginal, start_at_marginal
from natpn.training.session import Session
from training.problems import SCHEMES, median_familiarity, network, problem


def states(model):
    return {k: v.clone() for k, v in model.state_dict().items()}


def assert_same(a, b):
    assert a.keys() == b.keys()
    different = [k for k in a if not torch.equal(a[k], b[k])]
    assert not different


def mean_log_prob(model, data):
    with torch.no_grad():
        return float(model(data[0]).posterior.predictive().log_prob(data[1]).mean())


SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", ["normal", pytest.param("poisson", marks=SLOW), "categorical"])
def test_the_default_learns_and_knows_what_it_has_seen(name):
    family, train, held_out = problem(name, rows=1000)
    model = network(family)
    before = mean_log_prob(model.eval(), held_out)
    result = fit(model, train, held_out, max_epochs=40)
    assert mean_log_prob(model, held_out) > max(before, {"normal": -0.6, "poisson": -6, "categorical": -0.3}[name])
    assert median_familiarity(model, held_out[0]) > 0.9
    assert median_familiarity(model, held_out[0] + 100) < 0.01
    assert not model.training
    assert result.seconds > 0
    assert {entry["phase"] for entry in result.history} == {"representation"}
    assert result.validation_loss == min(entry["validation_loss"] for entry in result.history if "best" in entry)


@pytest.mark.parametrize("density", [pytest.param(d, marks=SLOW if d in ("maf", "spline") else ()) for d in DENSITIES])
def test_the_papers_scheme_learns(density):
    family, train, held_out = problem("categorical", rows=600)
    model = network(family, dropout=0.0, density=density, budget="normal", bypass=None)
    before = mean_log_prob(model.eval(), held_out)
    scheme = Paper(max_epochs=15, batch_size=64, learning_rate=1e-2, warm_up_epochs=2, fine_tuning_epochs=4)
    result = fit(model, train, held_out, scheme=scheme)
    assert mean_log_prob(model, held_out) > before + 0.3
    joint = [entry for entry in result.history if entry["phase"] == "joint"]
    assert joint
    assert all(isinstance(entry["median_log_evidence"], float) for entry in joint)
    assert median_familiarity(model, held_out[0] + 100) < 0.01


def test_a_flow_can_be_trained_by_the_staged_scheme():
    family, train, held_out = problem("normal")
    model = network(family, density="radial")
    result = fit(model, train, held_out, scheme=Staged(max_epochs=5, density_epochs=5))
    losses = [entry["validation_loss"] for entry in result.history if entry["phase"] == "density"]
    assert len(losses) == 5
    assert min(losses) < losses[0]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_same_seed_gives_the_same_weights(scheme):
    family, train, held_out = problem("normal")
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(99)  # fit does not depend on it, and leaves it alone
        model = network(family, density="radial" if scheme == "paper" else "gaussian_mixture")
        torch.manual_seed(98)
        fit(model, train, held_out, scheme=SCHEMES[scheme](), seed=seed)
        runs.append((states(model), torch.rand(1)))
    assert_same(runs[0][0], runs[1][0])
    assert any(not torch.equal(runs[0][0][k], v) for k, v in runs[2][0].items())
    torch.manual_seed(98)
    assert torch.equal(runs[0][1], torch.rand(1))


def test_the_best_state_is_restored():
    family, train, held_out = problem("normal", rows=80)
    model = network(family)
    scheme = Staged(max_epochs=60, batch_size=16, learning_rate=0.1, patience=60, averaging=0.0, penalty=0.0)
    session = _session(model, train, held_out)
    start = start_at_marginal(model, train[1], torch.ones(len(train[1])))
    descend(session, "x", PlainLoss(model, start), session.train, session.validation, scheme._descent(session, [model]))
    losses = [entry["validation_loss"] for entry in session.history]
    assert losses[-1] > min(losses)
    trainee = PlainLoss(model, start)
    found = evaluate(trainee, session.validation.prepared(trainee.prepare), session)[0]
    assert_close(float(found), min(losses), rtol=1e-5, atol=0)


def test_several_networks_and_few_rows_take_fewer_steps():
    family = families.get("normal")
    steps = {}
    for rows, size in ((2400, 1), (2400, 2), (240, 2)):
        x = torch.zeros(rows, 3)
        members = [default_network(3, family, rows) for _ in range(size)]
        session = _session(members[0], (x, x[:, 0]), (x[:9], x[:9, 0]))
        descent = Staged()._descent(session, members)
        steps[rows, size] = descent.epochs * session.train.steps(descent.batch_size)
        assert descent.learning_rate == (3e-3 if size == 1 else 5e-3)
        assert descent.penalty == 2.4 / max(rows, 800)
        assert Staged()._descent(session, members, scale=4.0).penalty == descent.penalty / 4  # as the loss is divided
    assert list(steps.values()) == pytest.approx([1500, 1000, 316], rel=0.05)


def test_a_penalty_keeps_weights_small():
    family, train, held_out = problem("normal", rows=80)
    sizes = []
    for penalty in (0.0, 1000.0):
        model = network(family)
        fit(model, train, held_out, scheme=Staged(max_epochs=30, penalty=penalty))
        sizes.append(float(model.encoder.first.weight.detach().square().sum()))
    assert sizes[1] < 0.5 * sizes[0]


def _session(model, train, held_out, **options):
    from natpn.training.batches import source

    cpu = torch.device("cpu")
    values = {"seed": 0, "precision": "float32", "directory": None, "identity": {}, "progress": False, **options}
    return Session(model, source("train", train, cpu), source("validation", held_out, cpu), cpu, **values)


def test_patience_ends_a_phase():
    family, train, held_out = problem("normal", rows=80)
    result = fit(network(family), train, held_out, scheme=Staged(max_epochs=300, patience=3, learning_rate=0.3))
    epochs = [e for e in result.history if e["phase"] == "representation"]
    best = min(range(len(epochs)), key=lambda i: epochs[i]["validation_loss"])
    assert len(epochs) == best + 1 + 3 < 300


def test_a_frozen_encoder_is_in_evaluation_mode():
    """Fitting density and alignment leaves encoder and normalisation as the first stage left them."""
    family, train, held_out = problem("normal")
    seen = []
    model = network(family, density="radial")
    model.encoder.layers.register_forward_hook(lambda module, *_: seen.append(module.training))
    fit(model, train, held_out, scheme=Staged(max_epochs=1, density_epochs=2, batch_size=192))
    assert seen.count(True) == 1


def test_loaders_do_as_well_as_tensors():
    family, train, held_out = problem("normal", rows=400)
    loaders = [DataLoader(TensorDataset(*data), batch_size=32, shuffle=data is train) for data in (train, held_out)]
    model = network(family)
    fit(model, *loaders, max_epochs=20)
    assert mean_log_prob(model, held_out) > -0.8
    short = [network(family) for _ in range(2)]
    for again in short:
        fit(again, *loaders, max_epochs=3)
    assert_same(*map(states, short))


def test_weights_count_as_repetitions():
    """A weight of 0 is the absence of a row, in every stage."""
    family, train, held_out = problem("normal", rows=200)
    spoilt = [
        (torch.cat([x, x]), torch.cat([y, y + 50]), torch.cat([torch.ones(len(x)), torch.zeros(len(x))]))
        for x, y in (train, held_out)
    ]
    model = network(family)
    fit(model, *spoilt, max_epochs=30, batch_size=64)
    assert mean_log_prob(model, held_out) > -1


def test_dense_targets_can_be_trained():
    torch.manual_seed(0)
    model = NaturalPosteriorNetwork(
        encoders.get("dense", shape=(1, 8, 8), latent_dim=4), families.get("normal"), latent_dim=4
    )
    x = torch.randn(24, 1, 8, 8)
    result = fit(model, (x[:16], x[:16, 0]), (x[16:], x[16:, 0]), max_epochs=3, batch_size=8)
    assert result.validation_loss == result.validation_loss
    assert model(x).evidence.batch_shape == (24, 8, 8)


def test_members_that_train_together_are_each_as_good_as_alone():
    family, train, held_out = problem("normal", rows=600)
    ensemble = NaturalPosteriorEnsemble([network(family, seed) for seed in range(3)])
    fit(ensemble, train, held_out, max_epochs=30)
    alone = network(family)
    fit(alone, train, held_out, max_epochs=30)
    level = mean_log_prob(alone, held_out)
    scores = [mean_log_prob(member, held_out) for member in ensemble.members]
    assert min(scores) > level - 0.3
    assert mean_log_prob(ensemble, held_out) > min(scores) - 0.05  # the member with most evidence may not be the best
    weights = [member.decoder.weight for member in ensemble.members]
    assert not torch.equal(weights[0], weights[1])


def test_members_that_cannot_be_stacked_train_one_after_the_other():
    family, train, held_out = problem("normal")
    wide = NaturalPosteriorNetwork(encoders.get("tabular", n_features=2, latent_dim=3, hidden=4), family, latent_dim=3)
    ensemble = NaturalPosteriorEnsemble([network(family), wide])
    result = fit(ensemble, train, held_out, max_epochs=3)
    assert {e["phase"] for e in result.history} == {"representation 1", "representation 2"}


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_loss_that_is_not_a_number_stops_training_and_keeps_the_best_state(by_hand):
    family, train, held_out = problem("normal")
    model = network(family)
    session = _session(model, train, held_out)
    trainee = PlainLoss(model, start_at_marginal(model, train[1], torch.ones(len(train[1]))))
    forward, passes, calls = trainee.forward, trainee.by_hand, []

    def poison():
        calls.append(1)
        return torch.nan if len(calls) > 15 else 1.0

    def poisoned(flat):
        plain = passes(flat)

        def both(*arguments):
            losses, gradient = plain(*arguments)
            return losses * poison(), gradient

        return both

    if by_hand:
        trainee.by_hand = poisoned
    else:
        trainee.by_hand = lambda flat: None
        trainee.forward = lambda x, y: forward(x, y) * poison()
    with pytest.raises(TrainingError, match=r"'stage', epoch 3: the training loss is \[nan\].*learning rate 0\.01"):
        descend(session, "stage", trainee, session.train, session.validation, Descent(9, 32, 1e-2))
    assert all(v.isfinite().all() for v in model.state_dict().values())
    trainee.forward = forward
    best = min(entry["validation_loss"] for entry in session.history)
    found = evaluate(trainee, session.validation.prepared(trainee.prepare), session)[0]
    assert_close(float(found), best, rtol=1e-5, atol=0)


def test_inputs_that_are_not_numbers_are_named_as_the_cause():
    family, train, held_out = problem("normal")
    x = train[0].clone()
    x[3, 1] = torch.nan
    model = NaturalPosteriorNetwork(encoders.get("tabular", n_features=2, latent_dim=3), family, latent_dim=3)
    with pytest.raises(TrainingError, match="training inputs hold NaN"):
        fit(model, (x, train[1]), held_out, max_epochs=2)


def test_the_decoder_starts_at_the_marginal():
    for name in ("normal", "poisson", "categorical"):
        family, (_, y), _ = problem(name)
        model = network(family)
        scale = start_at_marginal(model, y, torch.ones(len(y))).scale
        want = family.observe(y).sum(0).chi
        assert_close(family.link(model.decoder.bias.detach()), want.float(), rtol=1e-3, atol=1e-4)
        assert scale == 1 if name == "categorical" else scale >= 1


def test_rows_of_weight_zero_have_no_part_in_the_scale_of_the_loss():
    y = torch.randn(100, generator=torch.Generator().manual_seed(0))
    family, spoilt = families.get("normal"), torch.cat([y, y + 50])
    weight = torch.cat([torch.ones(100), torch.zeros(100)])
    assert_close(marginal(family, spoilt, weight)[1], marginal(family, y, weight[:100])[1], rtol=1e-6, atol=0)


def test_the_bayesian_loss_is_equation_7():
    family, (x, y), _ = problem("poisson")
    model = network(family).eval()
    posterior = model(x).posterior
    want = -posterior.expected_log_likelihood(y) - 0.3 * posterior.entropy()
    assert_close(BayesianLoss(model, 0.3)(x, y), want)


def test_half_precision_trains():
    family, train, held_out = problem("normal", rows=400)
    model = network(family)
    fit(model, train, held_out, max_epochs=20, precision="bfloat16")
    assert mean_log_prob(model, held_out) > -0.9


def test_progress_is_shown_only_when_asked_for(capsys):
    family, train, held_out = problem("normal")
    fit(network(family), train, held_out, max_epochs=2)
    assert capsys.readouterr().err == ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm's own
        fit(network(family), train, held_out, scheme="paper", max_epochs=2, progress=True)
    shown = capsys.readouterr().err
    assert "joint" in shown
    for word in ("loss", "validation_loss", "median_log_evidence"):
        assert word in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scheme": "stagd"}, "Did you mean 'staged'"),
        ({"entropy_weight": 1e-3}, "entropy_weight: the scheme Staged has no such setting"),
        ({"max_epochs": 0}, "max_epochs: expected a positive"),
        ({"device": "gpu"}, "device: expected"),
        ({"precision": "float16"}, "precision: expected"),
    ],
)
def test_errors_say_what_to_do(options, words):
    family, train, held_out = problem("normal")
    with pytest.raises(ValueError, match=words):
        fit(network(family), train, held_out, **options)


def test_errors_in_the_data_say_what_to_do():
    family, train, held_out = problem("normal")
    for wrong, words in (
        ((train[0],), "train: expected tensors"),
        ((train[0], train[1][:5]), "as many targets"),
        ((train[0][:0], train[1][:0]), "at least one row"),
        (3, "train: expected tensors .* or a loader"),
        (train[0], "train: expected tensors"),
        ([[1, 2], [3]], "train: expected tensors"),
    ):
        with pytest.raises(ValueError, match=words):
            fit(network(family), wrong, held_out, max_epochs=1)
    with pytest.raises(ValueError, match="network: expected"):
        fit(torch.nn.Linear(2, 2), train, held_out)


def test_members_have_the_same_median_evidence():
    """Each would need another amount; if they kept it, the one with the most would speak for all."""
    family, train, held_out = problem("normal", rows=300)
    members = [network(family, seed) for seed in range(3)]
    fit(NaturalPosteriorEnsemble(members), train, held_out, scheme=Staged(max_epochs=5))
    with torch.no_grad():
        medians = [float(member(held_out[0]).evidence.log_n.median()) for member in members]
    assert_close(medians, [medians[0]] * 3, rtol=1e-4, atol=1e-3)


def test_bad_targets_are_named_before_training_starts():
    """Also among more rows than the marginal of the targets is taken from."""
    x, y = torch.zeros(200_050, 1), torch.zeros(200_050)
    y[-1] = torch.nan
    network = NaturalPosteriorNetwork(encoders.get("tabular", n_features=1), families.get("normal"))
    with pytest.raises(ValueError, match=r"y: expected a finite number, got nan at index \(200049,\)"):
        fit(network, (x, y), (x[:10], y[:10]), max_epochs=1, batch_size=100_000)
