"""The SDK's asynchronous clients, over aiohttp."""

import asyncio
from datetime import datetime, timedelta, timezone

from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import TableAccessPolicy, TableTransactionError, UpdateMode, generate_table_sas
from azure.data.tables.aio import TableClient, TableServiceClient
from house import CASES, NOT_MODIFIED, code, house, row


async def fails(error, work):
    """The error that awaiting `work` raises."""
    try:
        await work
    except error as raised:
        return raised
    raise AssertionError(f"{error.__name__} was expected")


async def keys(items):
    return [item["RowKey"] async for item in items]


def run(test):
    """Runs `test` with a service client and a fresh table of the test's name."""

    def in_loop():
        async def inside():
            async with TableServiceClient.from_connection_string(house.connection, **house.options) as service:
                await test(service, await service.create_table(f"{house.run}{test.__name__.replace('_', '')}"))

        asyncio.run(inside())

    return in_loop


async def async_tables(service, table):
    name = table.table_name
    await fails(ResourceExistsError, service.create_table(name))
    await service.create_table_if_not_exists(name)
    others = [f"{name}{n}" for n in range(3)]
    for other in others:
        await service.create_table(other)
    ours = service.query_tables(f"TableName gt '{name}' and TableName lt '{name}9'", results_per_page=2)
    pages = [[item.name async for item in page] async for page in ours.by_page()]
    assert pages == [others[:2], others[2:]], pages
    assert name in [item.name async for item in service.list_tables()]
    for other in others:
        await service.delete_table(other)
    await table.set_table_access_policy({"own": TableAccessPolicy(permission="r", expiry=datetime(2040, 1, 1))})
    assert (await table.get_table_access_policy())["own"].permission == "r"
    assert (await service.get_service_stats())["geo_replication"]["status"] == "live"
    before = await service.get_service_properties()
    await service.set_service_properties(cors=[])
    assert (await service.get_service_properties())["cors"] == (before["cors"] if not before["cors"] else [])


async def async_entities(_, table):
    first = (await table.create_entity(row("a", A=1)))["etag"]
    await fails(ResourceExistsError, table.create_entity(row("a")))
    assert (await table.get_entity("p", "a")).metadata["etag"] == first
    for mode in (UpdateMode.MERGE, UpdateMode.REPLACE):
        await table.update_entity(row("a", B=2), mode=mode)
        await fails(ResourceModifiedError, table.update_entity(row("a"), mode=mode, etag=first, match_condition=NOT_MODIFIED))
        await fails(ResourceNotFoundError, table.update_entity(row("none"), mode=mode))
        await table.upsert_entity(row(f"b{mode.value}", C=3), mode=mode)
    assert dict(await table.get_entity("p", "a")) == row("a", B=2)
    assert await keys(table.query_entities("C eq @c", parameters={"c": 3}, select=["RowKey"])) == ["bmerge", "breplace"]
    await fails(ResourceModifiedError, table.delete_entity("p", "a", etag=first, match_condition=NOT_MODIFIED))
    await table.delete_entity("p", "a")
    await fails(ResourceNotFoundError, table.get_entity("p", "a"))
    await table.submit_transaction([("create", row(f"{n:03}")) for n in range(100)])
    error = await fails(TableTransactionError, table.submit_transaction([("upsert", row("x")), ("create", row("001"))]))
    assert (code(error), error.index) == ("EntityAlreadyExists", 1), error
    pager = table.list_entities(results_per_page=30).by_page()
    got = [item["RowKey"] async for item in await pager.__anext__()]
    rest = table.list_entities(results_per_page=30).by_page(continuation_token=pager.continuation_token)
    got += [item["RowKey"] async for page in rest async for item in page]
    assert got == [f"{n:03}" for n in range(100)] + ["bmerge", "breplace"], got
    expiry = datetime.now(timezone.utc) + timedelta(hours=1)
    sas = generate_table_sas(house.credential, table.table_name, permission="r", expiry=expiry)
    async with TableClient(house.endpoint, table.table_name, credential=AzureSasCredential(sas), **house.options) as guest:
        assert await keys(guest.query_entities("RowKey lt '003'")) == ["000", "001", "002"]
        error = await fails(HttpResponseError, guest.create_entity(row("new")))
        assert code(error) == "AuthorizationPermissionMismatch", error


async def async_keys(_, table):
    for key in CASES["keys"]:
        await table.create_entity(row(key, key))
        for mode in (UpdateMode.MERGE, UpdateMode.REPLACE):
            await table.update_entity(row(key, key), mode=mode)
            await table.upsert_entity(row(key, key), mode=mode)
        read = await table.get_entity(key, key)
        assert (read["PartitionKey"], read["RowKey"]) == (key, key), key
        assert await keys(table.query_entities("RowKey eq @key", parameters={"key": key})) == [key], key
        await table.delete_entity(key, key)
    everything = CASES["keys"]
    for start in range(0, len(everything), 100):
        await table.submit_transaction([("create", row(key)) for key in everything[start : start + 100]])
    found = await keys(table.list_entities(results_per_page=1))
    assert found == sorted(everything, key=lambda key: key.encode("utf-16-be"))


async def async_at_once(_, table):
    await asyncio.gather(*(table.create_entity(row(f"{n:03}", N=n)) for n in range(200)))
    assert await keys(table.list_entities()) == [f"{n:03}" for n in range(200)]
    await table.upsert_entity(row("counter", N=0))

    async def add():
        while True:
            seen = await table.get_entity("p", "counter")
            seen["N"] += 1
            try:
                return await table.update_entity(seen, mode=UpdateMode.REPLACE, match_condition=NOT_MODIFIED)
            except ResourceModifiedError:
                continue

    await asyncio.gather(*(add() for _ in range(20)))
    assert (await table.get_entity("p", "counter"))["N"] == 20, "no change is lost"


test_async_tables = run(async_tables)
test_async_entities = run(async_entities)
test_async_keys = run(async_keys)
test_async_at_once = run(async_at_once)
test_async_keys.styles = ["path", "tls"]
