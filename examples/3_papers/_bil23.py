"""Curves, training and answers of the networks of [BIL23], for the scripts of its figures.

The curves are the data files that stand beside the authors' published code, of an earlier version
of the paper under another title; means and standard deviations are over 100 networks where no
others are stated. The layers of the networks, and how they are trained, are from there, too.
"""

from copy import deepcopy

import numpy as np

SOURCE = "data"
# Success on 21, 40, 60, 80, 100, 120 and 140 records, in 1,000 games each.
FIGURE_3 = (0.744, 0.563, 0.554, 0.544, 0.532, 0.511, 0.492)
MISSING = "these images are not in the data home"
IMAGES = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000]
# Success of the attack, generalization gap and share of right answers: means, deviations.
# fmt: off
FIGURE_4 = {
    "MNIST": {
        "success": ([.6820, .7083, .6866, .5964, .6185, .5603, .5309, .5062, .5085, .5007],
                    [.0603, .0613, .0468, .0728, .0544, .0518, .0474, .0562, .0533, .0494]),
        "gap": ([.7034, .5404, .3652, .2118, .1408, .0726, .0437, .0247, .0119, .0060],
                [.0996, .0840, .0527, .0461, .0273, .0127, .0089, .0060, .0038, .0027]),
        "accuracy": ([.2485, .3806, .5595, .6576, .8428, .9241, .9429, .9590, .9723, .9793],
                     [.0476, .0529, .0498, .0675, .0301, .0104, .0091, .0065, .0040, .0032]),
    },
    "Fashion-MNIST": {
        "success": ([.6277, .6564, .6591, .5484, .6104, .5583, .5242, .5178, .5216, .5127],
                    [.0762, .0692, .0528, .0582, .0581, .0550, .0475, .0496, .0529, .0522]),
        "gap": ([.6843, .5568, .4029, .2173, .2511, .1789, .1174, .1013, .0757, .0610],
                [.1442, .0965, .0773, .0754, .0506, .0363, .0320, .0250, .0131, .0104]),
        "accuracy": ([.2649, .3901, .5276, .5639, .6923, .7485, .7766, .8097, .8435, .8625],
                     [.0605, .0625, .0529, .0632, .0302, .0157, .0149, .0120, .0074, .0063]),
    },
    "CIFAR-10": {
        "success": ([.6775, .7281, .7278, .5825, .7160, .6811, .6414, .6406, .6126, .5921],
                    [.0832, .0661, .0669, .0875, .0563, .0548, .0742, .0594, .0495, .0409]),
        "gap": ([.7746, .7699, .6899, .4358, .6606, .6476, .5320, .5709, .4998, .4228],
                [.1697, .0863, .1058, .1839, .0732, .0550, .1613, .0565, .0246, .0199]),
        "accuracy": ([.1270, .1513, .1836, .1976, .2472, .2943, .3385, .3876, .4663, .5460],
                     [.0205, .0210, .0190, .0215, .0171, .0133, .0140, .0104, .0098, .0090]),
    },
}
# Of one network for each number of digits; success on 90 digits for the first, 100 for the rest.
DIGITS = [100, 150, 200, 250, 300, 400, 500, 750, 1000, 2000, 4000, 8000]
FIGURE_5 = {
    "confidence": [.2333, .10, .12, .17, .10, .13, .07, .09, .06, .03, .06, .06],
    "loss": [.3222, .17, .10, .16, .13, .16, .08, .12, .06, .06, .07, .08],
    "accuracy": [.2444, .14, .13, .17, .11, .15, .08, .10, .07, .05, .07, .06],
    "gradient": [.3333, .18, .14, .18, .10, .16, .09, .12, .09, .06, .04, .08],
    "membership": [.78, .73, .74, .67, .60, .60, .61, .51, .53, .41, .53, .53],
    "gap": [.4783, .3010, .2997, .2486, .1900, .1872, .1212, .1092, .0625, .0308, .0121, .0154],
    "right": [.6084, .7462, .7823, .8331, .8609, .8585, .9137, .9221, .9428, .9706, .9873, .9833],
}
# fmt: on
RATE, BATCH, EPOCHS = 0.005, 50, 150
N_POINTS = 32
# The attack on membership calls those members of whose class a network is more than 80% sure.
THRESHOLD = 0.8


def train(network, X, y, seed, *changes):
    """Fit a network by Adam; return it as it is when the loss of an epoch first changes less.

    ``changes`` fall: training for a smaller one goes on from where it stood at the one before, so
    that one run serves all. A copy of the network is returned for each.
    """
    # Where torch is: figure 3 needs the published numbers alone.
    import torch

    from skleak.neural.models import squared_probability_loss

    rng = np.random.default_rng(seed)
    steps = torch.optim.Adam(network.parameters(), lr=RATE)
    before, found = np.inf, []
    for _ in range(EPOCHS):
        losses = []
        for batch in torch.split(torch.tensor(rng.permutation(len(y))), BATCH):
            steps.zero_grad()
            loss = squared_probability_loss(network(X[batch]), y[batch]).mean() / 10.0
            loss.backward()
            steps.step()
            losses.append(loss.item())
        changed, before = abs(before - np.mean(losses)), np.mean(losses)
        reached = sum(changed < change for change in changes[len(found) :])
        found += [deepcopy(network) for _ in range(reached)]
        if len(found) == len(changes):
            return found
    return found + [network] * (len(changes) - len(found))


def gradient_norms(network, X, y):
    """Length of the gradient of the loss in the parameters, for every record.

    From the slope at the output of each layer: a weight's is that times what comes in, so that the
    squares of a whole layer are a product of two sums.
    """
    import torch

    from skleak.neural.models import squared_probability_loss

    rows, outputs = [X], []
    for layer in network:
        outputs.append(layer(rows[-1]))
        rows.append(outputs[-1])
    loss = squared_probability_loss(outputs[-1], y).sum()
    squares = torch.zeros(len(X))
    for layer, row, slope in zip(network, rows, torch.autograd.grad(loss, outputs), strict=False):
        if isinstance(layer, torch.nn.Linear):
            squares += slope.square().sum(1) * (1.0 + row.detach().square().sum(1))
        elif isinstance(layer, torch.nn.BatchNorm1d):
            scaled = (row.detach() - layer.running_mean) / torch.sqrt(layer.running_var + layer.eps)
            squares += (slope.square() * (1.0 + scaled.square())).sum(1)
    return torch.sqrt(squares)


def answers(network, X, y):
    """Largest probability, squared error, and whether the answer is right, of every record."""
    import torch

    from skleak.neural.models import squared_probability_loss

    with torch.no_grad():
        scores = network(X)
        loss = squared_probability_loss(scores, y)
        sure, named = torch.softmax(scores, -1).max(-1)
    return sure.numpy(), loss.numpy(), (named == y).numpy()


def at_32(points, rng):
    """Points of a digit, of which midpoints are put in or every second one left out, by lot."""
    while (short := N_POINTS - len(points)) > 0:
        gaps = np.sort(rng.permutation(len(points) - 1)[:short])
        points = np.insert(points, gaps + 1, (points[gaps] + points[gaps + 1]) / 2.0, axis=0)
    while len(points) > N_POINTS:
        if len(points) % 2 == 0:
            half = len(points) // 2
            points = np.insert(points, half, points[half - 1 : half + 1].mean(axis=0), axis=0)
        out = rng.permutation(np.arange(1, len(points), 2))[: len(points) - N_POINTS]
        points = np.delete(points, out, axis=0)
    return points


def called(sure, fresh_sure):
    """Share of members, and of others, that the attack calls members."""
    return float(np.mean(sure > THRESHOLD)), float(np.mean(fresh_sure > THRESHOLD))


def summary(results):
    """Mean and standard deviation over networks of every number, and how many there are."""
    names = results[0]
    values = {name: np.array([result[name] for result in results]) for name in names}
    kept = {name: [v.mean(), v.std(ddof=1) if len(v) > 1 else 0.0] for name, v in values.items()}
    return kept | {"networks": len(results)}


def tolerance(deviation, number, published_deviation, published_number):
    """Three standard errors of the difference of two means."""
    variances = deviation**2 / number + published_deviation**2 / published_number
    return 3.0 * float(np.sqrt(variances))
