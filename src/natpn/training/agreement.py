"""The noise of an ensemble whose members each held out a fold: smaller than what each member found for itself.

A member's noise is fitted to its errors on rows that it has not seen. These hold the noise of the data and v, the
variance of the predictions of networks that were trained on other rows. The mean of M members errs by v/M alone, and
their pooled distribution already has their disagreement in it, (1 − 1/M) v. So 2 (1 − 1/M) v is counted too much.

No row is new to all members, so v has to be found from rows that all but one were trained on. There they agree better,
because each remembers some of the target. Were a prediction the share h of the target and 1 − h of what it would be
without it, errors would be smaller by 1 − h and the disagreement by (1 − h)². Networks do not remember alike, and it is
nearer to 1 − h: so corrected, v was 0.65 to 1.25 times that on fresh rows on eight tables of 1,000 rows.
"""

import math
from collections.abc import Sequence

import torch

from natpn.network import NaturalPosteriorNetwork
from natpn.training.latents import Latents

_LARGE = 9.0  # squared errors above it, in units of the variance, count as this: single rows are not to decide
_LEAST = 0.3


@torch.no_grad()
def share_noise(members: Sequence[NaturalPosteriorNetwork], folds: Sequence[Sequence[Latents]]) -> None:
    """Lower the noise of all members by what would be counted twice.

    Args:
        members: The networks, at least three, or nothing is changed; only families with a variance have such a noise.
        folds: What each member says about the rows of each fold, folds[i][k] being member k about the fold of member i.
    """
    size = len(members)
    family = members[0].family
    if size < 3 or family.noise != "variance":
        return
    sums = torch.zeros(4, dtype=torch.float64)
    for place, answers in enumerate(folds):
        raw = torch.stack([answer.raw for answer in answers]).double()
        y, weight = answers[0].y.double(), answers[0].weight.double()
        variance = raw[..., 1].clamp(-30, 30).exp()
        error = ((family.statistics(y)[..., 0] - raw[..., 0]).square() / variance).clamp(max=_LARGE)
        others = [k for k in range(size) if k != place]
        disagreement = raw[others, :, 0].var(0) / variance.mean(0)
        rows = torch.stack([torch.ones_like(weight), disagreement, error[others].mean(0), error[place]])
        sums += (rows * weight).sum(1).cpu()
    total, disagreement, seen, unseen = sums.tolist()
    remembered = math.sqrt(max(seen, 1e-6 * total) / max(unseen, 1e-6 * total))  # 1 − h
    factor = 1 - 2 * (1 - 1 / size) * disagreement / total / min(remembered, 1.0)
    for member in members:
        member.decoder.bias[1] += math.log(max(factor, _LEAST))
