"""The metrics as Prometheus' own reader for Python sees them: each that docs/operations.md names, by its type
and its labels."""

import re
import urllib.request
from pathlib import Path

from house import fresh_table, house, row
from prometheus_client.parser import text_string_to_metric_families

DOCUMENT = Path(__file__).parents[3] / "docs" / "operations.md"
# Of builds that send spans.
OPTIONAL = "tabulith_spans_"
HISTOGRAMS = {"tabulith_request_seconds", "tabulith_wal_sync_seconds"}


def documented():
    """Name and labels of each metric in the table; those that end in … stand for several."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    cells = [line.split("|")[1] for line in lines if line.startswith("| `tabulith_")]
    found = {}
    for name, labels in re.findall(r"`(tabulith_\w+…?)(?:\{([\w,]+)\})?`", " ".join(cells)):
        found[name] = set(labels.split(",")) - {""}
    return found


def families():
    """The metrics by the name that their text has; the reader takes `_total` off."""
    port = re.search(r":(\d+)/", house.endpoint)[1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/_/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"), answer.headers
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, f"{family.name} says nothing"
        name = family.name + ("_total" if family.type == "counter" else "")
        assert name not in found, f"{name} stands there twice"
        found[name] = family
    return found


def value(found, name, **labels):
    (sample,) = [s for s in found[name].samples if s.name == name and labels.items() <= s.labels.items()]
    return sample.value


def test_metrics_are_what_the_document_says():
    table = fresh_table("metrics")
    table.create_entity(row("a"))
    table.get_entity("p", "a")
    before = families()
    names = documented()
    assert len(names) > 40, names
    for name, labels in names.items():
        if name.endswith("…"):
            assert sum(other.startswith(name[:-1]) for other in before) > 1, name
            continue
        family = before.get(name)
        if family is None and name.startswith(OPTIONAL):
            continue
        assert family is not None, f"{name} is not there"
        kind = "histogram" if name in HISTOGRAMS else "counter" if name.endswith("_total") else "gauge"
        assert family.type == kind, f"{name}: {family.type} instead of {kind}"
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == labels, f"{name}: {sample.labels} instead of {labels}"
    starts = tuple(name[:-1] for name in names if name.endswith("…"))
    nowhere = [name for name in before if name not in names and not name.startswith(starts)]
    assert not nowhere, f"{nowhere} are in no line of docs/operations.md"
    for name in HISTOGRAMS:
        assert any(sample.name == f"{name}_bucket" and sample.labels["le"] == "+Inf" for sample in before[name].samples)

    table.get_entity("p", "a")
    after = families()
    gets = {"op": "get", "code": "2xx"}
    assert value(after, "tabulith_requests_total", **gets) == value(before, "tabulith_requests_total", **gets) + 1
    assert value(after, "tabulith_ready") == 1
    falling = [
        (name, sample.labels)
        for name, family in before.items()
        if family.type == "counter"
        for sample, later in zip(family.samples, after[name].samples)
        if later.labels != sample.labels or later.value < sample.value
    ]
    assert not falling, falling


test_metrics_are_what_the_document_says.styles = ["path"]
