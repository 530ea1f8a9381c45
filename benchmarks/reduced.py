"""Cost of one step of reduced SGD, noise on, and the share of it that drawing random numbers takes."""

import numpy as np
from timing import human, seconds

import overlaps as ov
from overlaps.simulators.reduced import BLOCK, _random_parts, draw, reduced_run

N = 10_000  # the cost does not depend on it


def main():
    print("isotropic inputs, label noise, one sample per step, one thread\n")
    print(f"{'':>5} {'K=M':>4} {'one step':>10} {'steps/s':>10} {'drawing':>10} {'share':>6}")
    for activation in (ov.erf, ov.relu):
        for K in (1, 2, 4, 8, 16):
            model = ov.committee_machine(K, K, activation=activation, eta=0.1, noise=0.1, normalised=True)
            start = model.random_start(N=N, rng=1)
            normal, dof = _random_parts([N], K, K, 1)
            length = max(1, BLOCK // normal.size)
            rng = np.random.default_rng(2)
            steps = 20 * length  # whole blocks: everything drawn is used
            t_step = seconds(lambda: reduced_run(model, start, N, [steps], rng)) / steps
            t_draw = seconds(lambda: draw(rng, length, normal, dof, model.noise)) / length
            print(
                f"{activation.name:>5} {K:4d} {human(t_step):>10} {1 / t_step:10.3g} {human(t_draw):>10} "
                f"{t_draw / t_step:6.0%}"
            )


if __name__ == "__main__":
    main()
