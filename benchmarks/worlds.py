"""Scripted worlds: chains of steps whose rightness is known exactly, to compare search methods with each other and with peers.

A step is right with probability `success`; a chain is right iff every step is. An evaluator reads a path and scores its
newest step: mean 0.75 while the path looks right, 0.35 once it looks wrong, Gaussian noise, clipped to [0, 1]. A share
`hidden` of the wrong steps looks right until the chain has ended. A right chain ends in the right answer, a wrong one in one
of a few distractors.

What is right is known to the scorer's process alone: `WorldServer` starts this very file as a child and talks to it over a
pipe. Tags, texts and answers are keyed hashes; nothing in them tells right from wrong. Everything is a pure function of
(world seed, path, sample seed), so the order of calls changes nothing, and worlds of one seed differ only in what their
specifications differ in. This file needs the standard library only and knows no search.
"""

from __future__ import annotations

import marshal
import random
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import blake2b
from statistics import NormalDist
from typing import IO, Any, NamedTuple, TypeAlias

Tags: TypeAlias = "tuple[int, ...]"
"""A path: the tags of its steps."""

TAGS = 1 << 30
"""Tags are in [0, TAGS)."""

ROUTES = 8
"""Steps to choose from on either side of a pair, in worlds with two routes."""


@dataclass(frozen=True)
class WorldSpec:
    """One kind of world."""

    name: str
    depth: int = 8
    """Steps after which every chain has ended."""
    earliest: int | None = None
    """Steps after which a chain may first end; its length is then uniform from here to `depth`. None: all end at `depth`."""
    success: float = 0.5
    """Probability that a step is right, whatever came before."""
    noise: float = 0.1
    """Standard deviation of a reading, before clipping."""
    hidden: float = 0.0
    """Share of wrong steps that look right until the chain has ended."""
    distractors: int = 3
    """Wrong answers; every wrong chain ends in one of them, each as likely."""
    duplicates: float = 0.0
    """Share of proposed steps that are the node's favourite: once it is there, so many repeat it word for word."""
    dead_ends: float = 0.0
    """Share of wrong steps after which the chain ends without an answer."""
    routes: bool = False
    """Steps come in pairs that commute: either order ends in the same state, with the same last text and the same reading."""
    rescoring: bool = False
    """Every reading of a path scores all its steps anew, with fresh noise; once it has ended, each of them honestly."""
    right_mean: float = 0.75
    """Mean reading, before clipping, of what looks right."""
    wrong_mean: float = 0.35
    """Mean reading, before clipping, of what looks wrong."""

    def __post_init__(self) -> None:
        for share in (self.success, self.hidden, self.duplicates, self.dead_ends):
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"world {self.name!r} has a share of {share}; give one in [0, 1]")
        if not 1 <= self.shortest <= self.depth:
            raise ValueError(f"world {self.name!r} ends from {self.earliest} to {self.depth}; give 1 <= earliest <= depth")
        if self.routes and (self.depth % 2 or self.earliest is not None or self.duplicates):
            raise ValueError(f"world {self.name!r}: two routes need an even depth, no early ends and no duplicates")

    @property
    def shortest(self) -> int:
        """Steps after which a chain may first end with an answer."""
        return self.depth if self.earliest is None else self.earliest


_FOUR = (
    WorldSpec("clean", noise=0.10),
    WorldSpec("noisy", noise=0.25),
    WorldSpec("deceptive", noise=0.10, hidden=0.3),
    WorldSpec("both", noise=0.25, hidden=0.3),
)

WORLDS: dict[str, WorldSpec] = {
    spec.name: spec
    for spec in (
        *_FOUR,
        WorldSpec("duplicated", duplicates=0.5),
        WorldSpec("early", depth=12, earliest=2),
        WorldSpec("dead_ends", dead_ends=0.3),
        WorldSpec("two_routes", routes=True),
        *(replace(spec, name=f"{spec.name}_rescoring", rescoring=True) for spec in _FOUR),
    )
}
"""The worlds that are measured, by name."""


class WorldStep(NamedTuple):
    """One proposed step, as a search may see it."""

    tag: int
    text: str
    """Ends with a line break; the same text below the same parent is the same step."""
    finished: bool
    """The chain ends here with an answer."""
    answer: str | None
    dead: bool
    """The chain ends here without an answer."""

    @property
    def ended(self) -> bool:
        """Whether nothing follows."""
        return self.finished or self.dead


# The search's side.


class WorldHandle:
    """One open world: what a policy and an evaluator may ask, and the verdict for the harness."""

    def __init__(self, server: WorldServer, number: int, spec: WorldSpec) -> None:
        self.server = server
        self.number = number
        self.spec = spec
        self.steps = 0
        """Policy steps proposed so far."""

    def propose(self, path: Tags, seeds: Sequence[int]) -> list[WorldStep]:
        """Return one next step a seed; the same seed gives the same step. Raises WorldError when the path has ended."""
        return self.server.propose_many([(self, path, seeds)])[0]

    def score(self, paths: Sequence[Tags]) -> list[list[float]]:
        """Return the readings of each path, which has at least one step: its newest step's, or with rescoring every step's."""
        return self.server.score_many([(self, path) for path in paths])

    def verdict(self, answer: str) -> bool:
        """Return whether the answer is right, for the harness after a search: nothing can be proposed or scored any more."""
        return bool(self.server.call("verdict", self.number, answer))

    def close(self) -> None:
        """Let the scorer forget this world."""
        self.server.call("close", self.number)


class WorldError(RuntimeError):
    """A world was asked for something that does not exist, or its scorer's process ended."""


class WorldServer:
    """Opens worlds; their scorer runs in a process of its own, or with `inline` (for tests) in this one."""

    def __init__(self, *, inline: bool = False) -> None:
        self._scorer = _Scorer() if inline else None
        self._lock = threading.Lock()
        self._opened = 0
        self._child: subprocess.Popen[bytes] | None = None
        if not inline:
            command = [sys.executable, "-I", "-S", __file__, "serve"]
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> WorldServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, spec: WorldSpec, seed: int) -> WorldHandle:
        """Return a fresh world."""
        number = self._opened
        self._opened += 1
        self.call("open", number, astuple(spec), seed)
        return WorldHandle(self, number, spec)

    def propose_many(self, asks: Sequence[tuple[WorldHandle, Tags, Sequence[int]]]) -> list[list[WorldStep]]:
        """Return the steps of many requests, over any worlds, for one message."""
        found = self.call("propose", [(handle.number, tuple(path), tuple(seeds)) for handle, path, seeds in asks])
        for handle, _, seeds in asks:
            handle.steps += len(seeds)
        return [[WorldStep(*step) for step in steps] for steps in found]

    def score_many(self, asks: Sequence[tuple[WorldHandle, Tags]]) -> list[list[float]]:
        """Return the readings of many paths, over any worlds, for one message."""
        found: list[list[float]] = self.call("score", [(handle.number, tuple(path)) for handle, path in asks])
        return found

    def call(self, what: str, *arguments: object) -> Any:
        """Return the scorer's answer to one message. Raises WorldError."""
        with self._lock:
            if self._scorer is not None:
                fault, result = self._scorer.answer((what, *arguments))
            else:
                fault, result = self._over_pipe((what, *arguments))
        if fault:
            raise WorldError(result)
        return result

    def close(self) -> None:
        """End the scorer's process."""
        child, self._child = self._child, None
        if child is not None:
            child.communicate()  # closes its input, at which it ends

    def _over_pipe(self, message: tuple[object, ...]) -> tuple[bool, Any]:
        if self._child is None:
            raise WorldError("the server of the worlds is closed")
        try:
            _send(self._child.stdin, message)
            fault, result = _receive(self._child.stdout)
            return fault, result
        except (OSError, EOFError) as error:
            raise WorldError("the process of the worlds' scorer ended") from error


def _send(pipe: IO[bytes] | None, message: Any) -> None:
    assert pipe is not None
    data = marshal.dumps(message)
    pipe.write(struct.pack("<I", len(data)) + data)
    pipe.flush()


def _receive(pipe: IO[bytes] | None) -> Any:
    assert pipe is not None
    head = pipe.read(4)
    if len(head) < 4:
        raise EOFError
    return marshal.loads(pipe.read(struct.unpack("<I", head)[0]))


# The scorer's side: in a process of its own, the only one in which these classes have instances.


class _State(NamedTuple):
    """Where a path has come to."""

    digest: bytes
    """Of the state: the same by either route."""
    depth: int
    right: bool
    """Every step so far is right."""
    shown: bool
    """Every step so far is right or hidden."""
    ended: bool
    answer: str | None
    start: bytes
    """Digest of the state from which steps are drawn: of the one before the pair, while a pair is half done."""
    half: int | None
    """Tag of a pair's first step, while it is half done."""


_STEP = struct.Struct("<16s6Q")
_WHOLE = float(1 << 64)


class _World:
    """One world with its secrets."""

    def __init__(self, spec: WorldSpec, seed: int) -> None:
        self.spec = spec
        self._key = blake2b(f"treewise world {seed}".encode(), digest_size=32).digest()
        labels = random.Random(self._key).sample(range(100, 1000), 1 + spec.distractors)
        self._right_answer, *self._distractors = map(str, labels)
        digest = self._hash(b"root", size=16)
        self._states: dict[Tags, _State] = {(): _State(digest, 0, True, True, False, None, digest, None)}
        self._normal = NormalDist()
        self._judged = False

    def propose(self, path: Tags, seeds: Tags) -> list[tuple[int, str, bool, str | None, bool]]:
        state = self._state(path)
        if state.ended:
            raise WorldError(f"the path of {state.depth} steps has ended; nothing follows it")
        steps = []
        for seed in seeds:
            tag = self._draw(state, seed)
            after = self._state((*path, tag))
            text = f"{after.depth}. {after.digest[:6].hex()}" + (f" answer {after.answer}\n" if after.answer else "\n")
            steps.append((tag, text, after.answer is not None, after.answer, after.ended and after.answer is None))
        return steps

    def score(self, path: Tags) -> list[float]:
        whole = self._state(path)
        if not path:
            raise WorldError("a path without a step has no reading")
        first = 1 if self.spec.rescoring else len(path)
        return [self._reading(self._state(path[:end]), whole) for end in range(first, len(path) + 1)]

    def verdict(self, answer: str) -> bool:
        self._judged = True
        return answer == self._right_answer

    def _hash(self, *parts: bytes, size: int = 64) -> bytes:
        return blake2b(b"".join(parts), key=self._key, digest_size=size).digest()

    def _draw(self, state: _State, seed: int) -> int:
        lot: int
        number: int
        lot, number = struct.unpack("<2Q", self._hash(b"draw", state.digest, str(seed).encode(), size=16))
        if lot / _WHOLE < self.spec.duplicates:
            (number,) = struct.unpack("<Q", self._hash(b"favourite", state.digest, size=8))
        if self.spec.routes:
            side = number & 1 if state.half is None else 1 - (state.half & 1)
            place = struct.pack("<2B", side, (number >> 1) % ROUTES)
            (number,) = struct.unpack("<Q", self._hash(b"route", state.start, place, size=8))
            return number % TAGS & ~1 | side
        return number % TAGS

    def _state(self, path: Tags) -> _State:
        if self._judged:
            raise WorldError("the world has given its verdict; open it anew")
        state = self._states.get(path)
        if state is None:
            before = self._state(path[:-1])
            if before.ended:
                raise WorldError(f"the path of {before.depth} steps has ended; nothing follows it")
            state = self._states[path] = self._step(before, path[-1])
        return state

    def _step(self, before: _State, tag: int) -> _State:
        """Return the state after a step; its secrets depend on the step and on the state that it was drawn from."""
        spec, depth = self.spec, before.depth + 1
        name = tag.to_bytes(4, "little")
        digest, right, hidden, dead, end, distractor, _ = _STEP.unpack(self._hash(b"step", before.start, name))
        step_right = right / _WHOLE < spec.success
        chain_right = before.right and step_right
        shown = before.shown and (step_right or hidden / _WHOLE < spec.hidden)
        is_dead = not step_right and dead / _WHOLE < spec.dead_ends
        lengths = spec.depth - depth + 1  # it may still have
        finished = depth >= spec.shortest and end / _WHOLE < 1 / lengths
        answer = None
        if finished and not is_dead:
            answer = self._right_answer if chain_right else self._distractors[distractor % spec.distractors]
        start, half = digest, None
        if spec.routes and before.half is None:
            start, half = before.start, tag
        elif spec.routes and before.half is not None:
            pair = sorted((tag, before.half))
            start = digest = self._hash(b"pair", before.start, struct.pack("<2I", *pair), size=16)
        return _State(digest, depth, chain_right, shown, finished or is_dead, answer, start, half)

    def _reading(self, part: _State, whole: _State) -> float:
        (number,) = struct.unpack("<Q", self._hash(b"noise", whole.digest, part.digest, size=8))
        good = part.right if whole.ended else part.shown
        mean = self.spec.right_mean if good else self.spec.wrong_mean
        noise = self._normal.inv_cdf(((number >> 12) + 0.5) / (1 << 52)) * self.spec.noise
        return min(1.0, max(0.0, mean + noise))


class _Scorer:
    """All open worlds of one server."""

    def __init__(self) -> None:
        self._worlds: dict[int, _World] = {}

    def answer(self, message: tuple[Any, ...]) -> tuple[bool, Any]:
        """Return whether it failed, and the result or the reason."""
        what, *arguments = message
        try:
            if what == "open":
                number, spec, seed = arguments
                self._worlds[number] = _World(WorldSpec(*spec), seed)
                return False, None
            if what == "propose":
                return False, [self._worlds[number].propose(path, seeds) for number, path, seeds in arguments[0]]
            if what == "score":
                return False, [self._worlds[number].score(path) for number, path in arguments[0]]
            if what == "verdict":
                return False, self._worlds[arguments[0]].verdict(arguments[1])
            self._worlds.pop(arguments[0], None)
            return False, None
        except WorldError as error:
            return True, str(error)
        except KeyError as error:
            return True, f"world {error} is not open"


def _serve() -> None:
    scorer = _Scorer()
    while True:
        try:
            message = _receive(sys.stdin.buffer)
        except EOFError:
            return
        _send(sys.stdout.buffer, scorer.answer(message))


if __name__ == "__main__" and sys.argv[1:] == ["serve"]:
    _serve()
