"""What the SDK can do with entities beyond the basics: metadata, parameters, tokens of pages, failing transactions."""

import uuid
from datetime import datetime, timezone

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceModifiedError
from azure.data.tables import (
    EdmType,
    EntityProperty,
    RequestTooLargeError,
    TransactionOperation,
    TableTransactionError,
    UpdateMode,
)
from house import NOT_MODIFIED, code, fails, fresh_table, house, keys, row

MODES = (UpdateMode.MERGE, UpdateMode.REPLACE)
LEVELS = ("nometadata", "minimalmetadata", "fullmetadata")
VALUES = {
    "Text": "naïve 'quoted' & 字 😀",
    "Yes": True,
    "Int": -7,
    "Long": EntityProperty(2**53 + 1, EdmType.INT64),
    "Double": 2.5,
    "Whole": 3.0,
    "When": datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=timezone.utc),
    "Id": uuid.UUID("12345678-9abc-def0-1234-56789abcdef0"),
    "Bytes": b"\x00\xff'",
}


def test_metadata_levels():
    table = fresh_table("levels")
    table.create_entity(row("a", **VALUES))
    plain = dict(table.get_entity("p", "a"))
    assert plain == row("a", **VALUES)
    seen = []
    for level in LEVELS:
        accept = {"headers": {"Accept": f"application/json;odata={level}"}, "raw_response_hook": seen.append}
        one = table.get_entity("p", "a", **accept)
        [listed] = table.query_entities("Int eq -7", **accept)
        for answer in seen:
            assert f"odata={level}" in answer.http_response.headers["Content-Type"], answer.http_response.headers
        for found in (one, listed):
            assert found["Text"] == plain["Text"] and found["Int"] == -7 and found["Double"] == 2.5, found
            if level != "nometadata":
                assert {name: found[name] for name in plain} == plain, found
                assert found.metadata["etag"], found.metadata
        if level == "fullmetadata":
            assert one.metadata["type"].lower().endswith(table.table_name.lower()), one.metadata
            assert f"{table.table_name}(PartitionKey='p',RowKey='a')" in one.metadata["id"], one.metadata
        seen.clear()


def test_parameters_of_every_type():
    table = fresh_table("parameters")
    table.create_entity(row("a", **VALUES))
    table.create_entity(row("none"))
    given = {**VALUES, "Long": VALUES["Long"].value}
    for name, value in given.items():
        for filter_text in (f"{name} eq @value", f"{name} ge @value and {name} le @value", f"not ( {name} ne @value ) and {name} eq @value"):
            found = keys(table.query_entities(filter_text, parameters={"value": value}))
            assert found == ["a"], (filter_text, value, found)
        assert keys(table.query_entities(f"{name} ne @value", parameters={"value": value})) == [], name
    text = " and ".join(f"{name} eq @{name}" for name in VALUES)
    assert keys(table.query_entities(text, parameters=given)) == ["a"]
    stamp = table.get_entity("p", "a").metadata["timestamp"]
    found = table.query_entities("Timestamp ge @since", parameters={"since": stamp.replace(microsecond=0)})
    assert "a" in keys(found)


def test_conditions_of_every_kind():
    table = fresh_table("conditions")
    modified = MatchConditions.IfNotModified
    for number, mode in enumerate(MODES):
        key = str(number)
        first = table.create_entity(row(key))["etag"]
        second = table.update_entity(row(key, N=1), mode=mode, etag=first, match_condition=modified)["etag"]
        error = fails(ResourceModifiedError, lambda: table.update_entity(row(key, N=2), mode=mode, etag=first, match_condition=modified))
        assert code(error) == "UpdateConditionNotSatisfied", error
        table.update_entity(row(key, N=4), mode=mode, match_condition=MatchConditions.Unconditionally)
        assert table.get_entity("p", key)["N"] == 4
        fails(ValueError, lambda: table.update_entity(row(key), mode=mode, match_condition=modified))
        read = table.get_entity("p", key)
        read["N"] = 5
        table.update_entity(read, mode=mode, match_condition=modified)  # The tag that the entity came with.
        fails(ResourceModifiedError, lambda: table.delete_entity(read, match_condition=modified))
        fails(ResourceModifiedError, lambda: table.delete_entity("p", key, etag=second, match_condition=modified))
        table.delete_entity(table.get_entity("p", key), match_condition=modified)
        table.delete_entity("p", key)  # The SDK takes "not there" for success.
    assert keys(table.list_entities()) == []


def test_tokens_of_pages():
    names = [f"{house.run}page{n:02}" for n in range(7)]
    for name in names:
        house.service.create_table(name)
    ours = f"TableName ge '{names[0]}' and TableName le '{names[-1]}'"
    for size in range(1, 9):
        found, token = [], None
        while True:
            pager = house.service.query_tables(ours, results_per_page=size).by_page(continuation_token=token)
            found += [table.name for table in next(pager)]
            token = pager.continuation_token
            if not token:
                break
        assert found == names, (size, found)
    listed = [table.name for page in house.service.list_tables(results_per_page=3).by_page() for table in page]
    assert [name for name in listed if name in names] == names

    table = fresh_table("tokens")
    expected = [(p, f"{n:03}") for p in ("", "p", "字") for n in range(40)]
    for p in ("", "p", "字"):
        table.submit_transaction([("create", row(f"{n:03}", p, N=n)) for n in range(40)])
    for size in (1, 7, 39, 40, 41, 120, 1000):
        for filter_text, keep in (("", lambda k: True), ("N ge 20", lambda k: k[1] >= "020"), ("N eq 39", lambda k: k[1] == "039")):
            found, token, pages = [], None, 0
            while pages == 0 or token:
                pager = table.query_entities(filter_text, results_per_page=size).by_page(continuation_token=token)
                page = [(e["PartitionKey"], e["RowKey"]) for e in next(pager)]
                assert len(page) <= size
                found, token, pages = found + page, pager.continuation_token, pages + 1
            assert found == [k for k in expected if keep(k)], (size, filter_text)


def test_every_verb_fails_at_every_place():
    table = fresh_table("places")
    table.create_entity(row("there", N=0))
    stale = table.get_entity("p", "there").metadata["etag"]
    table.update_entity(row("there", N=1))
    old = {"etag": stale, "match_condition": NOT_MODIFIED}
    failing = [((TransactionOperation.CREATE, row("there")), 409, "EntityAlreadyExists"), (("delete", row("there"), old), 412, "UpdateConditionNotSatisfied")]
    for mode in MODES:
        failing += [
            (("update", row("absent"), {"mode": mode}), 404, "ResourceNotFound"),
            (("update", row("there"), {"mode": mode, **old}), 412, "UpdateConditionNotSatisfied"),
            (("upsert", row("there", S="x" * 40_000), {"mode": mode}), 400, "PropertyValueTooLarge"),
        ]
    failing.append((("create", row("there", **{"1st": 1})), 400, "PropertyNameInvalid"))
    for operation, status, expected in failing:
        for count, index in ((1, 0), (2, 1), (5, 2), (100, 0), (100, 50), (100, 99)):
            operations = [(TransactionOperation.UPSERT, row(f"n{n}", N=n)) for n in range(count)]
            operations[index] = operation
            error = fails(TableTransactionError, lambda: table.submit_transaction(operations))
            found = (error.status_code, code(error), error.index)
            assert found == (status, expected, index), (found, status, expected, index)
            assert [dict(e) for e in table.list_entities()] == [row("there", N=1)], "nothing is applied"
    absent = house.service.get_table_client(f"{house.run}absent")
    error = fails(HttpResponseError, lambda: absent.submit_transaction([("create", row("a"))]))
    assert code(error) == "TableNotFound", error
    large = [("create", row(f"{n}", **{f"P{p}": bytes(60_000) for p in range(10)})) for n in range(10)]
    fails((RequestTooLargeError, HttpResponseError), lambda: table.submit_transaction(large))
    assert keys(table.list_entities()) == ["there"]
