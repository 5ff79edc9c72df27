"""Breadth first over steps: the best `beams` open states of each level are kept, whatever has finished.

Unlike beam search, paths that finish take no place, so a level stays full until every path has ended.

Source: Yao et al. 2023, arXiv:2305.10601, algorithm 1 (tree of thoughts, ToT-BFS), with the evaluator in the place of the
language model that values thoughts.
"""

from __future__ import annotations

from treewise.search.level_search import LevelSearch, Share
from treewise.search.tree import ROOT


class BreadthFirstSearch(LevelSearch):
    """See the module's text."""

    def _first_level(self) -> list[Share]:
        return self.shared([ROOT])

    def _next_level(self) -> list[Share]:
        return self.shared(self.ranked(node for node in self.tips() if self.is_open(node))[: self.settings.beams])
