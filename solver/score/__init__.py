"""How close an order is to the one that ran: the certificate's against that of the sealed truth.

`verify`, the bench and tests use it, and nothing else: the truth is given to it, and no engine is near.
"""

from solver.score.score import Score, score_certificate
from solver.score.sources import NOBODY
from solver.score.within import Fault, Judged, Within

__all__ = ["NOBODY", "Fault", "Judged", "Score", "Within", "score_certificate"]
