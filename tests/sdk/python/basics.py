"""Tables, values, writes, transactions, filters, pages and limits."""

import base64
import uuid
from datetime import datetime, timezone
from math import inf, isnan, nan

from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.data.tables import EdmType, EntityProperty, TableServiceClient, TableTransactionError, UpdateMode
from house import CASES, NOT_MODIFIED, code, fails, fresh_table, house, keys, row


def test_tables():
    names = [f"{house.run}list{letter}" for letter in "abcde"]
    for name in reversed(names):
        house.service.create_table(name)
    error = fails(ResourceExistsError, lambda: house.service.create_table(names[0].upper()))
    assert code(error) == "TableAlreadyExists", error
    house.service.create_table_if_not_exists(names[0])
    ours = f"TableName ge '{house.run}list' and TableName lt '{house.run}lisu'"
    assert [table.name for table in house.service.query_tables(ours)] == names
    assert [table.name for table in house.service.query_tables(f"TableName eq '{names[2]}'")] == names[2:3]
    pages = [[table.name for table in page] for page in house.service.query_tables(ours, results_per_page=2).by_page()]
    assert [name for page in pages for name in page] == names and max(map(len, pages)) == 2, pages
    for name in names:
        house.service.delete_table(name)
    assert list(house.service.query_tables(ours)) == []
    table = house.service.get_table_client(names[0])
    error = fails(ResourceNotFoundError, lambda: table.create_entity(row("r")))
    assert code(error) == "TableNotFound", error
    table.create_table()
    assert list(table.list_entities()) == [], "a table made again is empty"
    fails(ValueError, lambda: house.service.create_table("a"))  # What the SDK makes of OutOfRangeInput.


def test_every_type_comes_back():
    table = fresh_table("types")
    now = datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=timezone.utc)
    entity = row(
        "all",
        Text="naïve 字 😀 \" \\ \n\t",
        Empty="",
        Yes=True,
        No=False,
        Int=-(2**31),
        Long=EntityProperty(2**63 - 1, EdmType.INT64),
        Whole=3.0,
        Tiny=5e-324,
        Minus=-0.0,
        Nan=nan,
        Up=inf,
        Down=-inf,
        When=now,
        Early=(datetime(1601, 1, 1, tzinfo=timezone.utc), EdmType.DATETIME),
        Id=uuid.UUID("12345678-9abc-def0-1234-56789abcdef0"),
        Bytes=bytes(range(256)),
        NoBytes=b"",
        Gone=None,
    )
    table.create_entity(entity)
    read = table.get_entity("p", "all")
    assert isnan(read.pop("Nan"))
    assert str(read["Minus"]) == "0.0", "the service drops the sign of zero"
    assert isinstance(read["Whole"], float) and isinstance(read["Int"], int)
    entity.pop("Nan"), entity.pop("Gone")
    entity["Early"] = entity["Early"][0]
    assert dict(read) == entity, f"{dict(read)}\n{entity}"
    ticks = "2024-02-29T23:59:59.1234567Z"
    table.create_entity(row("ticks", When=(ticks, EdmType.DATETIME)))
    assert table.get_entity("p", "ticks")["When"].tables_service_value == ticks


def test_writes_and_conditions():
    table = fresh_table("writes")
    first = table.create_entity(row("a", A=1, B=2))["etag"]
    error = fails(ResourceExistsError, lambda: table.create_entity(row("a")))
    assert code(error) == "EntityAlreadyExists", error
    read = table.get_entity("p", "a")
    assert read.metadata["etag"] == first, (read.metadata, first)
    assert abs((read.metadata["timestamp"] - datetime.now(timezone.utc)).total_seconds()) < 60

    second = table.update_entity(row("a", B=3, C=4), mode=UpdateMode.MERGE)["etag"]
    assert second != first
    assert dict(table.get_entity("p", "a")) == row("a", A=1, B=3, C=4)
    stale = {"etag": first, "match_condition": NOT_MODIFIED}
    for mode in (UpdateMode.MERGE, UpdateMode.REPLACE):
        error = fails(ResourceModifiedError, lambda: table.update_entity(row("a", Z=9), mode=mode, **stale))
        assert code(error) == "UpdateConditionNotSatisfied", error
    fails(ResourceModifiedError, lambda: table.delete_entity("p", "a", **stale))
    assert dict(table.get_entity("p", "a")) == row("a", A=1, B=3, C=4), "a failed condition changes nothing"

    current = {"etag": second, "match_condition": NOT_MODIFIED}
    third = table.update_entity(row("a", D=5), mode=UpdateMode.REPLACE, **current)["etag"]
    assert dict(table.get_entity("p", "a")) == row("a", D=5)
    table.upsert_entity(row("a", E=6), mode=UpdateMode.MERGE)
    assert dict(table.get_entity("p", "a")) == row("a", D=5, E=6)
    table.upsert_entity(row("a", F=7), mode=UpdateMode.REPLACE)
    assert dict(table.get_entity("p", "a")) == row("a", F=7)
    table.upsert_entity(row("b", A=1), mode=UpdateMode.MERGE)
    table.upsert_entity(row("c", A=1), mode=UpdateMode.REPLACE)
    assert keys(table.list_entities()) == ["a", "b", "c"]
    for mode in (UpdateMode.MERGE, UpdateMode.REPLACE):
        error = fails(ResourceNotFoundError, lambda: table.update_entity(row("none", A=1), mode=mode))
        assert code(error) == "ResourceNotFound", error

    fails(ResourceModifiedError, lambda: table.delete_entity("p", "a", etag=third, match_condition=NOT_MODIFIED))
    last = table.get_entity("p", "a").metadata["etag"]
    table.delete_entity("p", "a", etag=last, match_condition=NOT_MODIFIED)
    table.delete_entity("p", "b")
    fails(ResourceNotFoundError, lambda: table.get_entity("p", "a"))
    assert keys(table.list_entities()) == ["c"]
    again = table.create_entity(row("a", A=1))["etag"]
    assert again not in (first, second, third, last), "an ETag is never given out twice"


def test_etags_of_quick_updates_differ():
    table = fresh_table("quick")
    table.create_entity(row("a"))
    tags = [table.update_entity(row("a", N=n), mode=UpdateMode.MERGE)["etag"] for n in range(50)]
    assert len(set(tags)) == 50


def test_transactions():
    table = fresh_table("batch")
    answers = table.submit_transaction([("create", row(f"{n:03}", N=n)) for n in range(100)])
    assert len(answers) == 100 and all(answer["etag"] for answer in answers)
    tag = table.get_entity("p", "003").metadata["etag"]
    table.submit_transaction(
        [
            ("create", row("new", N=1)),
            ("upsert", row("000", M=1), {"mode": UpdateMode.MERGE}),
            ("upsert", row("001", M=1), {"mode": UpdateMode.REPLACE}),
            ("update", row("002", M=1), {"mode": UpdateMode.MERGE}),
            ("update", row("003", M=1), {"mode": UpdateMode.REPLACE, "etag": tag, "match_condition": NOT_MODIFIED}),
            ("delete", row("004")),
        ]
    )
    found = {entity["RowKey"]: dict(entity) for entity in table.list_entities()}
    assert found["new"] == row("new", N=1) and found["000"] == row("000", N=0, M=1)
    assert found["001"] == row("001", M=1) and found["002"] == row("002", N=2, M=1)
    assert found["003"] == row("003", M=1) and "004" not in found and len(found) == 100


def test_a_failing_operation_undoes_its_transaction():
    table = fresh_table("undo")
    table.create_entity(row("there", N=0))
    stale = table.get_entity("p", "there").metadata["etag"]
    table.update_entity(row("there", N=1))
    failing = [
        (("create", row("there")), "EntityAlreadyExists"),
        (("update", row("absent")), "ResourceNotFound"),
        (("update", row("there"), {"etag": stale, "match_condition": NOT_MODIFIED}), "UpdateConditionNotSatisfied"),
        (("upsert", row("big", S="x" * 70_000)), "PropertyValueTooLarge"),
    ]
    for operation, expected in failing:
        for index in (0, 2, 4):
            operations = [("upsert", row(f"n{n}", N=n)) for n in range(5)]
            operations[index] = operation
            error = fails(TableTransactionError, lambda: table.submit_transaction(operations))
            assert (code(error), error.index) == (expected, index), (error, error.index, expected, index)
            assert [dict(e) for e in table.list_entities()] == [row("there", N=1)], "nothing is applied"
    twice = [("upsert", row("x")), ("upsert", row("x"))]
    fails(HttpResponseError, lambda: table.submit_transaction(twice))
    fails(HttpResponseError, lambda: table.submit_transaction([("create", row(f"{n}")) for n in range(101)]))
    fails(ValueError, lambda: table.submit_transaction([("create", row("a")), ("create", row("a", "q"))]))
    assert keys(table.list_entities()) == ["there"]


def python_value(edm, text):
    convert = {
        "Int32": int,
        "Int64": lambda t: EntityProperty(int(t), EdmType.INT64),
        "Double": float,
        "Boolean": lambda t: t == "true",
        "DateTime": lambda t: EntityProperty(t, EdmType.DATETIME),
        "Guid": uuid.UUID,
        "Binary": base64.b64decode,
        "String": str,
    }
    return convert[edm](text)


def test_every_operator_on_every_type():
    table = fresh_table("filters")
    for row_key, properties in CASES["entities"].items():
        table.create_entity(row(row_key, **{name: python_value(*value) for name, value in properties.items()}))
    wrong = []
    for filter_text, expected in CASES["filters"]:
        found = keys(table.query_entities(filter_text))
        if found != expected.split():
            wrong.append(f"{filter_text}: {found}, expected {expected.split()}")
    assert not wrong, "\n".join(wrong)
    for filter_text in CASES["bad_filters"]:
        error = fails(HttpResponseError, lambda: list(table.query_entities(filter_text)))
        assert (error.status_code, code(error)) == (400, "InvalidInput"), (filter_text, error)
    parameters = {"day": datetime(2020, 1, 1, tzinfo=timezone.utc), "text": "a", "n": 1, "big": 1}
    found = table.query_entities("DT eq @day and S eq @text and I32 eq @n and I64 eq @big", parameters=parameters)
    assert keys(found) == ["r1"]


def test_select():
    table = fresh_table("select")
    table.create_entity(row("a", A=1, B="b", C=2.5))
    [found] = table.query_entities("A eq 1", select=["A", "C", "Missing"])
    assert {k: v for k, v in found.items() if v is not None} == {"A": 1, "C": 2.5}, dict(found)
    assert dict(table.get_entity("p", "a", select=["B"])) == {"B": "b"}
    assert dict(table.get_entity("p", "a", select="RowKey")) == {"RowKey": "a"}
    assert found.metadata["etag"] == table.get_entity("p", "a").metadata["etag"]


def test_paging():
    table = fresh_table("paging")
    expected = []
    for partition in ("p1", "p2", "p3"):
        for start in range(0, 900, 100):
            rows = [row(f"{n:05}", partition, N=n) for n in range(start, start + 100)]
            table.submit_transaction([("create", r) for r in rows])
            expected += [(partition, r["RowKey"]) for r in rows]
    pages = [[(e["PartitionKey"], e["RowKey"]) for e in page] for page in table.list_entities().by_page()]
    assert [len(page) for page in pages] == [1000, 1000, 700]
    assert [key for page in pages for key in page] == expected
    found = [e["RowKey"] for e in table.query_entities("PartitionKey eq 'p2' and N ge 450", results_per_page=7)]
    assert found == [f"{n:05}" for n in range(450, 900)]

    pager = table.query_entities("PartitionKey eq 'p1'", results_per_page=10).by_page()
    assert keys(next(pager)) == [f"{n:05}" for n in range(10)]
    token = pager.continuation_token
    table.delete_entity("p1", "00010")
    resumed = table.query_entities("PartitionKey eq 'p1'", results_per_page=10).by_page(continuation_token=token)
    assert keys(next(resumed)) == [f"{n:05}" for n in range(11, 21)], "the next row was deleted in between"
    only_one = table.query_entities("N eq 899 and PartitionKey eq 'p3'", results_per_page=5)
    assert keys(only_one) == ["00899"]


def test_limits():
    table = fresh_table("limits")
    table.create_entity(row("full", **{f"P{n}": n for n in range(252)}))
    table.create_entity(row("wide", S="x" * 32_768, B=bytes(65_536)))
    for bad, expected in [
        (row("a", **{f"P{n}": n for n in range(253)}), "TooManyProperties"),
        (row("a", S="x" * 32_769), "PropertyValueTooLarge"),
        (row("a", B=bytes(65_537)), "PropertyValueTooLarge"),
        (row("a", **{f"B{n}": bytes(65_536) for n in range(17)}), "EntityTooLarge"),
        (row("a", **{"1st": 1}), "PropertyNameInvalid"),
        (row("a", **{"n" * 256: 1}), "PropertyNameTooLong"),
    ]:
        error = fails(HttpResponseError, lambda: table.create_entity(bad))
        assert code(error) == expected, (error, expected)
    assert keys(table.list_entities()) == ["full", "wide"]


def test_a_wrong_key_is_refused():
    wrong = AzureNamedKeyCredential(house.service.account_name, base64.b64encode(b"wrong" * 8).decode())
    service = TableServiceClient(house.service.url, credential=wrong, **house.options)
    error = fails(HttpResponseError, lambda: list(service.list_tables()))
    assert error.status_code == 403, error
