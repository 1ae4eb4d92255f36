"""No structure, clusters, nested clusters or a branching tree? The tests behind the verdict, and the verdict."""

from horoball.hierarchy.verdicts.verdict import Verdict, verdict

__all__ = ["Verdict", "verdict"]
