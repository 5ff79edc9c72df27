"""Beliefs against brute force: every assignment of states to all nodes, every hypothesis about the answer, summed one by one."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from treewise.search import belief as belief_module
from treewise.search.belief import MOST_ANSWERS, NEW_ANSWER, STRENGTH, Belief, log_prior
from treewise.search.belief_kernels import LUCK, OUTLIER, SLIP
from treewise.search.belief_model import EmissionModel
from treewise.search.types import EvaluatorError, InputError

MODELS = (EmissionModel(), EmissionModel(0.75, 0.35, 0.18, 0.12, 0.5, 0.3), EmissionModel(0.6, 0.5, 0.05, 0.3, 0.9, 0.05))


@dataclass
class Known:
    """What a test knows of one node."""

    parent: int
    reading: float | None = None
    settled: bool = False
    failed: bool = False
    answer: str | None = None


def random_tree(seed: int, *, most: int = 7) -> list[Known]:
    """A root and up to `most` nodes below it, with readings on most, answers and failures on some leaves."""
    random = Random(seed)
    nodes = [Known(-1)]
    for _ in range(random.randint(1, most)):
        open_nodes = [i for i, n in enumerate(nodes) if n.answer is None and not n.failed]
        node = Known(random.choice(open_nodes))
        if random.random() < 0.85:
            node.reading, node.settled = random.choice([0.0, 1.0, random.random()]), random.random() < 0.3
        if random.random() < 0.4:
            node.answer = random.choice("abc")
        elif random.random() < 0.2:
            node.failed = True
        nodes.append(node)
    return nodes


def build(nodes: list[Known], model: EmissionModel | None) -> Belief:
    """Give it all to a belief, in order."""
    belief = Belief(model, learn=False)
    for i, node in enumerate(nodes[1:], start=1):
        assert belief.add(node.parent) == i
        if node.reading is not None:
            belief.observe(i, node.reading, settled=node.settled)
        if node.failed:
            belief.fail(i)
        if node.answer is not None:
            belief.finish(i, node.answer)
    return belief


def step_probability(model: EmissionModel, before: str, after: str) -> float:
    p, h = model.success, model.hidden
    table = {
        "RR": p, "RW": (1 - p) * (1 - h), "RH": (1 - p) * h,
        "WR": 0.0, "WW": 1.0, "WH": 0.0,
        "HR": 0.0, "HW": (1 - p) * (1 - h), "HH": 1 - (1 - p) * (1 - h),
    }  # fmt: skip
    return table[before + after]


def seating(answers: list[str]) -> float:
    """Probability of a sequence of answers, guest by guest."""
    seen: dict[str, int] = {}
    probability = 1.0
    for i, answer in enumerate(answers):
        probability *= (seen.get(answer, 0) or NEW_ANSWER) / (i + NEW_ANSWER)
        seen[answer] = seen.get(answer, 0) + 1
    return probability


def joint(nodes: list[Known], states: tuple[str, ...], truth: str | None, model: EmissionModel) -> float:
    """Probability of states and evidence under one hypothesis."""
    total = 1.0
    for node, state in zip(nodes[1:], states[1:], strict=True):
        total *= step_probability(model, states[node.parent], state)
        if node.reading is not None:
            good = state == "R" or (state == "H" and not node.settled)
            mean, spread = (model.right_mean, model.right_spread) if good else (model.wrong_mean, model.wrong_spread)
            normal = math.exp(-0.5 * ((node.reading - mean) / spread) ** 2) / (spread * math.sqrt(2 * math.pi))
            total *= (1 - OUTLIER) * normal + OUTLIER
        if node.failed and state == "R":
            total *= math.exp(SLIP)
        if node.answer is not None:
            if state == "R":
                total *= 1.0 if node.answer == truth else math.exp(SLIP)
            else:
                total *= math.exp(LUCK) if node.answer == truth else 1.0
    return total


def brute_force(nodes: list[Known], models: tuple[EmissionModel, ...]) -> tuple[np.ndarray, dict[str, float], float]:
    """Posterior of states and answers, and the likelihood of everything."""
    seen = list(dict.fromkeys(n.answer for n in nodes if n.answer is not None))
    hypotheses = [None, *seen]
    states, answers = np.zeros((len(nodes), 3)), dict.fromkeys(seen, 0.0)
    total = 0.0
    for truth in hypotheses:
        wrong = seating([n.answer for n in nodes if n.answer is not None and n.answer != truth])
        for model, assignment in itertools.product(models, itertools.product("RWH", repeat=len(nodes) - 1)):
            assigned = ("R", *assignment)
            p = joint(nodes, assigned, truth, model) * wrong / len(hypotheses) / len(models)
            total += p
            if truth is not None:
                answers[truth] += p
            for i, state in enumerate(assigned):
                states[i, "RWH".index(state)] += p
    return states / total, {a: p / total for a, p in answers.items()}, math.log(total)


@pytest.mark.parametrize("seed", range(40))
def test_posteriors_equal_the_sum_over_all_assignments(seed: int) -> None:
    nodes = random_tree(seed)
    model = MODELS[seed % len(MODELS)]
    states, answers, likelihood = brute_force(nodes, (model,))
    belief = build(nodes, model)
    posterior = belief.posterior()
    np.testing.assert_allclose(posterior.states, states, rtol=0, atol=1e-9)
    assert posterior.answers == pytest.approx(answers, abs=1e-9)
    assert belief.log_likelihood() == pytest.approx(likelihood, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_several_models_are_averaged_by_their_evidence(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(belief_module, "STARTS", MODELS)
    nodes = random_tree(100 + seed, most=6)
    states, answers, likelihood = brute_force(nodes, MODELS)
    belief = build(nodes, None)
    np.testing.assert_allclose(belief.posterior().states, states, rtol=0, atol=1e-9)
    assert belief.posterior().answers == pytest.approx(answers, abs=1e-9)
    assert belief.log_likelihood() == pytest.approx(likelihood, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_new_reading_replaces_the_old_one(seed: int) -> None:
    nodes = random_tree(200 + seed, most=40)
    once, twice = build(nodes, MODELS[1]), build(nodes, MODELS[1])
    random = Random(seed)
    for i in range(1, len(nodes)):
        twice.observe(i, random.random(), settled=random.random() < 0.5)
    for i in reversed(range(1, len(nodes))):
        reading = nodes[i].reading
        value = 0.25 if reading is None else reading
        once.observe(i, value, settled=nodes[i].settled)
        twice.observe(i, value, settled=nodes[i].settled)
    np.testing.assert_allclose(twice.posterior().states, once.posterior().states, rtol=0, atol=1e-9)
    assert twice.readings == once.readings == len(nodes) - 1


def test_a_backup_touches_the_path_to_the_root_and_nothing_else() -> None:
    belief = Belief(MODELS[0], learn=False)
    spine = [0]
    for _ in range(6):
        spine.append(belief.add(spine[-1]))
        for _ in range(50):
            belief.observe(belief.add(spine[-1]), 0.5)
    before = belief._message.copy()
    belief.observe(spine[-1], 0.9)
    changed = set(np.argwhere((belief._message[:, :, : before.shape[2]] != before).any(axis=(0, 1, 3))).ravel().tolist())
    assert changed <= set(spine[1:])
    assert spine[-1] in changed


@pytest.mark.parametrize("seed", range(8))
def test_a_walk_reads_the_same_posteriors_as_a_sweep(seed: int) -> None:
    nodes = random_tree(300 + seed, most=40)
    belief = build(nodes, None)
    right = belief.posterior().right
    for leaf in range(1, len(nodes)):
        path = [leaf]
        while path[0] != 0:
            path.insert(0, nodes[path[0]].parent)
        walk = belief.walk()
        for here, child in itertools.pairwise(path):
            siblings = [i for i, node in enumerate(nodes) if node.parent == here]
            assert walk.right(siblings) == pytest.approx(right[siblings].tolist(), abs=1e-9)
            walk.enter(child)
    with pytest.raises(InputError, match="no child"):
        belief.walk().enter(0)


def test_first_errors_are_a_distribution_that_falls_where_the_readings_fall() -> None:
    belief = Belief(MODELS[1], learn=False)
    path = [0]
    for reading in (0.8, 0.75, 0.3, 0.35, 0.3):
        path.append(belief.add(path[-1]))
        belief.observe(path[-1], reading)
    first = belief.posterior().first_error(path)
    assert first.shape == (6,)
    assert first.sum() == pytest.approx(1.0)
    assert first.argmax() == 2
    assert (first >= 0).all()


def sampled(model: EmissionModel, *, chains: int, seed: int) -> Belief:
    """A belief that starts from the default models, given chains of eight steps drawn from `model`."""
    random, belief = Random(seed), Belief()
    for _ in range(chains):
        node, state = 0, "R"
        for _ in range(8):
            weights = [step_probability(model, state, after) for after in "RWH"]
            state = random.choices("RWH", weights)[0]
            node = belief.add(node)
            mean, spread = (model.wrong_mean, model.wrong_spread) if state == "W" else (model.right_mean, model.right_spread)
            belief.observe(node, min(1.0, max(0.0, random.gauss(mean, spread))))
    return belief


@pytest.mark.parametrize(
    "model", [EmissionModel(0.75, 0.35, 0.1, 0.1, 0.7, 0.02), EmissionModel(0.6, 0.2, 0.08, 0.12, 0.9, 0.02)]
)
def test_the_emission_model_is_learned_from_the_readings(model: EmissionModel) -> None:
    belief = sampled(model, chains=400, seed=1)
    for _ in range(8):
        belief._fit()
    learned = belief.model
    for name in ("right_mean", "wrong_mean", "right_spread", "wrong_spread"):
        assert getattr(learned, name) == pytest.approx(getattr(model, name), abs=0.03), name
    shown, truly = ((1 - m.success) * (1 - m.hidden) for m in (learned, model))  # hidden or right cannot be told without an end
    assert shown == pytest.approx(truly, abs=0.02)


def test_learning_never_makes_what_is_known_less_probable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(belief_module, "FIT_ROUNDS", 1)
    belief = sampled(MODELS[1], chains=20, seed=2)
    reached = [belief._log_weights().max(axis=1)]
    for _ in range(6):
        belief._fit()
        reached.append(belief._log_weights().max(axis=1))
    for earlier, later in itertools.pairwise(reached):
        assert (later >= earlier - 0.05).all()  # the outliers' share is not part of the maximised bound
    assert (reached[-1] > reached[0] + 1.0).any()


def test_the_prior_peaks_at_its_start() -> None:
    start = MODELS[1].parameters()
    assert log_prior(start, start) == pytest.approx(0.0, abs=1e-12)
    for i, shift in itertools.product(range(6), (-0.05, 0.05)):
        moved = start.copy()
        moved[i] += shift
        assert log_prior(moved, start) < 0.0
    moved = start.copy()
    moved[0] += 0.1  # a mean: a Gaussian of STRENGTH observations
    assert log_prior(moved, start) == pytest.approx(-0.5 * STRENGTH * (0.1 / start[2]) ** 2)


def test_more_answers_than_hypotheses() -> None:
    belief = Belief(MODELS[0], learn=False)

    def end(answer: str, reading: float) -> None:
        node = belief.add(0)
        belief.observe(node, reading, settled=True)
        belief.finish(node, answer)

    for i in range(3 * MOST_ANSWERS):
        end(f"wrong {i}", 0.2)
    assert len(belief.posterior().answers) == MOST_ANSWERS
    for _ in range(4):
        end("wrong 0", 0.85)  # it lost its place long ago
    answers = belief.posterior().answers
    assert len(answers) == MOST_ANSWERS
    assert max(answers, key=answers.__getitem__) == "wrong 0"
    assert answers["wrong 0"] > 0.99
    again = Belief(MODELS[0], learn=False)
    for i in range(1, belief.size):
        again.add(0)
        again.observe(i, 0.2 if i <= 3 * MOST_ANSWERS else 0.85, settled=True)
    assert belief.posterior().right[1] > again.posterior().right[1]  # its first path gains from the later ones


@pytest.mark.parametrize("reading", [-0.1, 1.1, math.nan, math.inf])
def test_readings_out_of_range_are_refused(reading: float) -> None:
    belief = Belief()
    belief.add(0)
    with pytest.raises(EvaluatorError, match="reading"):
        belief.observe(1, reading)
    with pytest.raises(InputError, match="node 7"):
        belief.observe(7, 0.5)


@pytest.mark.parametrize(
    "arguments", [{"right_mean": 0.3}, {"wrong_mean": -0.1}, {"right_spread": 0.0}, {"success": 1.0}, {"hidden": 0.0}]
)
def test_models_out_of_range_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(InputError):
        EmissionModel(**arguments)
