"""Diverse verifier tree search: `beams` subtrees that never compete, each of which keeps the best of `width` steps a level.

The answer is chosen among all that any of them finished, also steps that were not kept.

Source: Beeching, Tunstall & Rush 2024, huggingface.co/spaces/HuggingFaceH4/blogpost-scaling-test-time-compute, and
github.com/huggingface/search-and-learn.
"""

from __future__ import annotations

from treewise.search.level_search import LevelSearch, Share
from treewise.search.tree import ROOT


class DiverseSearch(LevelSearch):
    """A subtree is a path and what was drawn below it; it ends with its best step, or when all its steps are dead."""

    def _first_level(self) -> list[Share]:
        return self.shared([ROOT] * self.settings.beams)

    def _next_level(self) -> list[Share]:
        best = [self.ranked(tip for tip in want.tips if not self.is_dead(tip))[:1] for want in self.last]
        return self.shared([node for found in best for node in found if self.is_open(node)])
