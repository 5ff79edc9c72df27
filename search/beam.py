"""Beam search over steps: each level, the best `beams` partial solutions are extended by `width` steps each.

Source: Snell et al. 2024, arXiv:2408.03314 (beam search against a process reward model).
"""

from __future__ import annotations

from treewise.search.level_search import LevelSearch, Share
from treewise.search.tree import ROOT


class BeamSearch(LevelSearch):
    """Paths that finish keep their places in the beam, so that fewer are extended from then on; dead ones take none."""

    _places = 0

    def _first_level(self) -> list[Share]:
        self._places = self.settings.beams
        return [Share(ROOT, self.within(self._places * self.width, 0))]

    def _next_level(self) -> list[Share]:
        kept = self.ranked(node for node in self.tips() if not self.is_dead(node))[: self._places]
        extended = [node for node in kept if self.is_open(node)]
        self._places -= len(kept) - len(extended)
        return self.shared(extended)
