"""Awkward keys through every path that the SDK gives a key."""

from datetime import datetime, timedelta, timezone

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.data.tables import UpdateMode, generate_table_sas
from house import CASES, fails, fresh_table, house, row
from house import keys as row_keys

NAMES = CASES["keys"] + ["k" * 512, "'" * 512, "%" * 300]
MODES = (UpdateMode.MERGE, UpdateMode.REPLACE)


def test_every_key_alone():
    assert len(NAMES) >= 120
    table = fresh_table("alone")
    for key in NAMES:
        table.create_entity(row(key, key, Same=key))
        read = table.get_entity(key, key)
        assert (read["PartitionKey"], read["RowKey"], read["Same"]) == (key, key, key), key
        for mode in MODES:
            table.update_entity(row(key, key, Same=key), mode=mode)
            tag = table.upsert_entity(row(key, key, Same=key), mode=mode)["etag"]
        read = table.get_entity(key, key, select=["RowKey", "Same"])
        assert dict(read) == {"RowKey": key, "Same": key} and read.metadata["etag"] == tag, key
        for filter_text in ("Same eq @key", "PartitionKey eq @key and RowKey eq @key"):
            found = table.query_entities(filter_text, parameters={"key": key})
            assert row_keys(found) == [key], (filter_text, key)
    assert sorted(row_keys(table.list_entities())) == sorted(NAMES)
    for key in NAMES:
        table.delete_entity(key, key)
        fails(ResourceNotFoundError, lambda: table.get_entity(key, key))
    assert row_keys(table.list_entities()) == []


test_every_key_alone.styles = ["path", "host", "tls"]


def test_every_key_in_transactions_pages_and_ranges():
    table = fresh_table("together")
    for start in range(0, len(NAMES), 100):
        table.submit_transaction([("create", row(key, N=0)) for key in NAMES[start : start + 100]])
    utf16 = sorted(NAMES, key=lambda key: key.encode("utf-16-be"))
    assert row_keys(table.list_entities()) == utf16, "order of UTF-16 code units"
    assert row_keys(table.query_entities("PartitionKey eq 'p'", results_per_page=1)) == utf16
    credential, expiry = house.credential, datetime.now(timezone.utc) + timedelta(hours=1)
    for place, key in enumerate(utf16):
        pager = table.list_entities(results_per_page=place + 1).by_page()
        next(pager)
        if pager.continuation_token:
            resumed = table.list_entities(results_per_page=1).by_page(continuation_token=pager.continuation_token)
            assert row_keys(next(resumed)) == utf16[place + 1 : place + 2], key
        bounds = {"start_pk": "p", "start_rk": key, "end_pk": "p", "end_rk": key}
        # The SDK takes an empty key for no key, and would allow more.
        if key:
            sas = generate_table_sas(credential, table.table_name, permission="r", expiry=expiry, **bounds)
            assert row_keys(house.table(table.table_name, sas).list_entities()) == [key], key
    changes = [("update", {"mode": mode}) for mode in MODES] + [("upsert", {"mode": mode}) for mode in MODES]
    for verb, how in changes:
        for start in range(0, len(NAMES), 100):
            table.submit_transaction([(verb, row(key, N=1), how) for key in NAMES[start : start + 100]])
    for start in range(0, len(NAMES), 100):
        table.submit_transaction([("delete", row(key)) for key in NAMES[start : start + 100]])
    assert row_keys(table.list_entities()) == []


def test_forbidden_keys_are_refused():
    table = fresh_table("forbidden")
    for bad in ("a/b", "a\\b", "a#b", "a?b", "a\tb", "a\nb", "a\x00b", "a\x7fb", "a\x85b", "k" * 1025):
        for key in ((bad, "r"), ("p", bad)):
            error = fails(HttpResponseError, lambda: table.create_entity(row(key[1], key[0])))
            assert error.status_code == 400, (bad, error)
            error = fails(HttpResponseError, lambda: table.submit_transaction([("create", row(key[1], key[0]))]))
            assert error.status_code == 400, (bad, error)
    assert row_keys(table.list_entities()) == []
