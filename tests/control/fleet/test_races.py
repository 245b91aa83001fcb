"""Claims about reports and measurements of the network at the same moment, each over its own database connection."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.fleet import links, reports
from controlplane.fleet.hooks import hooks
from controlplane.fleet.models import Link, LinkMeasurement
from controlplane.fleet.reports import node_record_report
from inference.contracts.reports import Address, LinkReport
from tests.control.conftest import Clock
from tests.control.fleet.messages import joined, report
from tests.control.races import Meeting, at_once

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def test_a_report_and_the_end_of_its_measurement_at_once_never_wait_for_each_other(
    now: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report has its node and wants the measurement; the end has the measurement and refers to the node."""
    monkeypatch.setattr(hooks, "specs_renew", lambda _: None)
    alpha, beta = joined(hostname="alpha"), joined(hostname="beta")
    for node in (alpha, beta):
        node_record_report(report(node, sequence=1), received_at=now())
    links.links_measure([(alpha.pk, beta.pk)], now=now())
    listens = LinkReport(measurement_id=str(LinkMeasurement.objects.get().pk), address=Address(host="h", port=9000))
    meet, weights, end = Meeting(), reports.weights_record, links._end
    monkeypatch.setattr(reports, "weights_record", lambda *args: (meet(), weights(*args))[1])
    monkeypatch.setattr(links, "_end", lambda *args, **named: (meet(), end(*args, **named))[1])

    answers = at_once(
        lambda: node_record_report(report(beta, sequence=2, links=(listens,)), received_at=now()),
        lambda: links.links_advance(now=now() + timedelta(hours=1)),
    )

    assert not [answer for answer in answers if isinstance(answer, Exception)], answers
    assert not LinkMeasurement.objects.exists()
    assert "said nothing" in Link.objects.get().error
