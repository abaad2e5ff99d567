"""A family at work: a prior, evidence, and predictions that say how much is known."""

import torch

from natpn import families

family = families.get("poisson")  # counts, with a Gamma prior on the rate
prior = family.prior()  # one pseudo-observation of a count of 1

chi = torch.tensor([[40.0], [40.0], [40.0]])  # a network predicts a rate of 40 three times …
log_n = torch.tensor([8.0, 2.0, -30.0])  # … with much evidence, with a little, and with almost none
posterior = family.posterior(prior + family.evidence(chi, log_n))

predictive, known = posterior.predictive(), log_n.exp() / (1 + log_n.exp())
low, high = predictive.icdf(torch.tensor(0.05)), predictive.icdf(torch.tensor(0.95))
for row in range(3):
    print(f"mean {predictive.mean[row]:5.1f}, 90 % in {low[row]:2.0f} … {high[row]:2.0f}, familiarity {known[row]:.2f}")

counts = torch.tensor([38.0, 44.0, 41.0])  # three observed counts are evidence too
print("after three counts:", family.posterior(prior + family.observe(counts).sum(0)).predictive().mean)
