"""its_hub's methods on the scripted worlds; run by the interpreter of its own environment.

The policy and the process reward model see the very text of the worlds' steps, one step a line. its_hub plans in candidates, each
of which grows to the end of its chain, so it is given as many as fit into the budget: it is told the length of the chains. A
reward model of its_hub aggregates the readings of all steps itself; `aggregate` is that knob ("prod" in its documentation).
For best-of-n and self-consistency the orchestrator, which its_hub lets its user write, draws all chains at once.

Run: python -m benchmarks.peer_its_hub < job  (see peer_meter.serve)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from its_hub import BestOfN, SelfConsistency
from its_hub.core.algorithms.beam_search import BeamSearch
from its_hub.core.algorithms.particle_gibbs import EntropicParticleFiltering, ParticleFiltering, ParticleGibbs
from its_hub.core.lms.step_generation import StepGeneration

from benchmarks.peer_meter import LONGEST, Meter, Options, Outcome, beam_steps, serve, widest
from benchmarks.worlds import Tags, WorldStep

PROMPT = "problem"
ANSWER = " answer "
"""In the text of a chain's last step and of no other."""


class World:
    """Policy, reward models and orchestrator at once, over text."""

    def __init__(self, meter: Meter, aggregate: str) -> None:
        self.meter = meter
        self.aggregate = aggregate
        self._tags: dict[tuple[Tags, str], int] = {}

    def path(self, text: str) -> Tags:
        """Return the path that a text spells."""
        path: Tags = ()
        for line in text.splitlines(keepends=True):
            path = (*path, self._tags[path, line])
        return path

    async def agenerate(self, conversations: Sequence[Sequence[Any]], *_: object, **__: object) -> list[dict[str, str]]:
        """Return one next step for each conversation: the policy's side in beam search and particle filtering."""
        paths = [self.path(messages[1].content if len(messages) > 1 else "") for messages in conversations]
        found = self.meter.sample([(path, 1) for path in paths])
        return [self._message([step], path) for path, (step,) in zip(paths, found, strict=True)]

    async def ascore(self, prompt: Any, responses: Sequence[str] = (), **_: object) -> list[float]:
        """Return the reward of each response; best-of-n hands over whole conversations in the prompt's place."""
        texts = [str(messages[-1].content) for messages in prompt] if prompt != PROMPT else responses
        paths = [self.path(text) for text in texts]
        self.meter.read(paths)
        return [self.meter.reward(path, self.aggregate) for path in paths]

    def _message(self, steps: Sequence[WorldStep], path: Tags) -> dict[str, str]:
        for step in steps:
            self._tags[path, step.text] = step.tag
            path = (*path, step.tag)
        return {"role": "assistant", "content": "".join(step.text for step in steps)}

    def complete(self, count: int) -> list[dict[str, str]]:
        """Return whole chains."""
        return [self._message(chain, ()) for chain in self.meter.chains(count)]


class Orchestrator:
    """Sends all requests of a batch at once."""

    async def agenerate(self, lm: World, conversations: Sequence[object], **_: object) -> list[dict[str, str]]:
        """Return one whole chain a conversation."""
        return lm.complete(len(conversations))


def generation() -> Any:
    """Return its_hub's step generator for the worlds' text; 32 steps at most, as in its documentation."""
    return StepGeneration(max_steps=32, step_token="\n", stop_token=ANSWER, include_stop_str_in_output=True)


def run(algorithm: Any, world: World, candidates: int | None = None) -> Outcome:
    """Return the chain that an algorithm chooses; without a number of candidates, budget / 8 of them."""
    message = algorithm.infer(world, PROMPT, budget=candidates or world.meter.budget // LONGEST)
    return Outcome(world.path(message["content"]))


def beam(meter: Meter, options: Options) -> Outcome:
    """Beam search: after each step the best `beam_width` candidates are kept and copied candidates / beam_width times."""
    width = options["beam_width"]
    world = World(meter, options["aggregate"])
    copies = widest(meter.budget, lambda copies: beam_steps(width, copies))
    return run(BeamSearch(generation(), world, beam_width=width), world, width * copies)


def particle_filter(meter: Meter, options: Options) -> Outcome:
    """Particle filtering, plain ("plain"), with entropic annealing ("entropic") or particle Gibbs in two iterations ("gibbs")."""
    world = World(meter, options["aggregate"])
    if options["variant"] == "entropic":
        return run(EntropicParticleFiltering(generation(), world), world)
    if options["variant"] == "gibbs":
        return run(ParticleGibbs(generation(), world, num_iterations=2), world)
    return run(ParticleFiltering(generation(), world, final_response_selection=options["selection"]), world)


def best_of_n(meter: Meter, options: Options) -> Outcome:
    """Best-of-n by the reward of whole chains."""
    world = World(meter, options["aggregate"])
    return run(BestOfN(world, orchestrator=Orchestrator()), world)


def self_consistency(meter: Meter, options: Options) -> Outcome:
    """The most frequent answer."""
    world = World(meter, "last")
    vote = SelfConsistency(lambda text: text.rsplit(ANSWER, 1)[-1], orchestrator=Orchestrator())
    return run(vote, world)


if __name__ == "__main__":
    serve({"beam": beam, "particle-filter": particle_filter, "best-of-n": best_of_n, "self-consistency": self_consistency})
