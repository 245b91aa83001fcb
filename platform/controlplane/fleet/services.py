"""Writing nodes and devices. One idea a module; this is the list of what other apps may call."""

from __future__ import annotations

from controlplane.fleet.announce import node_announce, nodes_announce
from controlplane.fleet.broker import credentials_ensure
from controlplane.fleet.cadence import cadence_adjust, report_interval_s
from controlplane.fleet.credentials import Received, message_args, report_read
from controlplane.fleet.desired import node_desire, node_retire
from controlplane.fleet.links import links_advance, links_needed, links_wanted
from controlplane.fleet.logs import log_fetch
from controlplane.fleet.losing import nodes_mark_lost
from controlplane.fleet.mailbox import Mailbox
from controlplane.fleet.reports import Recorded, node_record_report, nodes_record_reports
from controlplane.fleet.turns import sweep_take_turn
from controlplane.fleet.weights import weights_let_go, weights_want, weights_wanted

__all__ = [
    "Mailbox",
    "Received",
    "Recorded",
    "cadence_adjust",
    "credentials_ensure",
    "links_advance",
    "links_needed",
    "links_wanted",
    "log_fetch",
    "message_args",
    "node_announce",
    "node_desire",
    "node_record_report",
    "node_retire",
    "nodes_announce",
    "nodes_mark_lost",
    "nodes_record_reports",
    "report_interval_s",
    "report_read",
    "sweep_take_turn",
    "weights_let_go",
    "weights_want",
    "weights_wanted",
]
