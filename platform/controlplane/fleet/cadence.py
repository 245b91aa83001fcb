"""How often nodes report, and how long one may be silent: both follow from how many nodes there are, so that the work
that reports make has a limit.

Nodes are told with their welcome, and again with each spec. When the fleet has grown or shrunk since, the sweep tells
them, a few at a time.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import Q

from controlplane.fleet.hooks import specs_renew
from controlplane.fleet.models import Node
from inference.contracts.states import NodeDesired, NodePhase

#: Reports in which nothing changed that all nodes together send in one second, at most: 1,000 nodes report every 10 s
#: and are lost after 40, as in Kubernetes (node leases, node-monitor-grace-period). A worker's news are sent at once.
REPORTS_PER_S = 100

#: A node is lost when it was silent for as long as this many reports take (or NODE_LOST_AFTER_S, if that is longer).
MISSED_REPORTS = 4

#: A node is told anew when its interval is wrong by more than this factor; so many nodes in one sweep.
_TOLERANCE = 1.5
_TOLD_AT_ONCE = 50


def report_interval_s() -> float:
    """Seconds between two reports of one node, for a fleet as large as it is now."""
    nodes = Node.objects.exclude(desired=NodeDesired.RETIRED).count()
    return max(settings.NODE_REPORT_INTERVAL_S, nodes / REPORTS_PER_S)


def lost_after_s() -> float:
    """Seconds of silence after which a node is lost. Nodes that were not told of a longer interval yet report sooner,
    so this is right for them too."""
    return max(settings.NODE_LOST_AFTER_S, MISSED_REPORTS * report_interval_s())


def cadence_adjust() -> None:
    """For the sweep: give nodes whose interval is not that of a fleet of this size a new spec, some at a time."""
    interval = report_interval_s()
    wrong = Q(report_interval_s__lt=interval / _TOLERANCE) | Q(report_interval_s__gt=interval * _TOLERANCE)
    ours = Node.objects.exclude(desired=NodeDesired.RETIRED)
    nodes = ours.filter(wrong, phase=NodePhase.READY).order_by("pk")
    specs_renew(list(nodes.values_list("pk", flat=True)[:_TOLD_AT_ONCE]))
