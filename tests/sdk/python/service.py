"""The service itself: its properties, its statistics, its versions, its clients."""

from azure.core.exceptions import HttpResponseError
from azure.data.tables import (
    TableAnalyticsLogging,
    TableClient,
    TableCorsRule,
    TableMetrics,
    TableRetentionPolicy,
    TableServiceClient,
)
from house import code, fails, fresh_table, house, keys, row


def shown(part):
    """A part of the properties as plain values, its retention among them."""
    values = {name: getattr(part, name) for name in ("version", "delete", "read", "write", "enabled", "include_apis") if hasattr(part, name)}
    retention = part.retention_policy
    return {**values, "days": retention.days if retention.enabled else None}


def test_service_properties():
    service = house.service
    before = service.get_service_properties()
    kept = TableRetentionPolicy(enabled=True, days=5)
    logging = TableAnalyticsLogging(version="1.0", delete=True, read=True, write=True, retention_policy=kept)
    hour = TableMetrics(version="1.0", enabled=True, include_apis=True, retention_policy=kept)
    minute = TableMetrics(version="1.0", enabled=False, retention_policy=TableRetentionPolicy(enabled=False))
    rules = [
        TableCorsRule(["http://a.example", "http://b.example"], ["GET", "PUT"], allowed_headers=["x-ms-meta-*", "x-one"],
                      exposed_headers=["x-ms-*"], max_age_in_seconds=500),
        TableCorsRule(["*"], ["GET"]),
    ]
    service.set_service_properties(analytics_logging=logging, hour_metrics=hour, minute_metrics=minute, cors=rules)
    found = service.get_service_properties()
    assert shown(found["analytics_logging"]) == {"version": "1.0", "delete": True, "read": True, "write": True, "days": 5}
    assert shown(found["hour_metrics"]) == {"version": "1.0", "enabled": True, "include_apis": True, "days": 5}
    assert shown(found["minute_metrics"])["enabled"] is False
    assert [vars(rule) for rule in found["cors"]] == [vars(rule) for rule in rules], found["cors"]
    service.set_service_properties(cors=[])
    found = service.get_service_properties()
    assert not found["cors"] and shown(found["hour_metrics"])["days"] == 5, "what is not named stays"
    many = [TableCorsRule([f"http://{n}.example"], ["GET"]) for n in range(6)]
    service.set_service_properties(cors=many[:5])
    assert len(service.get_service_properties()["cors"]) == 5
    error = fails(HttpResponseError, lambda: service.set_service_properties(cors=many))
    assert error.status_code == 400, error
    assert len(service.get_service_properties()["cors"]) == 5, "a refused list changes nothing"
    for days in (1, 365):
        service.set_service_properties(hour_metrics=TableMetrics(enabled=True, include_apis=False, retention_policy=TableRetentionPolicy(enabled=True, days=days)))
        assert service.get_service_properties()["hour_metrics"].retention_policy.days == days
    bad = TableMetrics(enabled=True, include_apis=False, retention_policy=TableRetentionPolicy(enabled=True, days=366))
    error = fails(HttpResponseError, lambda: service.set_service_properties(minute_metrics=bad))
    assert error.status_code == 400, error
    service.set_service_properties(**{**before, "cors": before["cors"] or []})


def test_statistics_and_the_secondary():
    stats = house.service.get_service_stats()["geo_replication"]
    assert stats["status"] == "live" and stats["last_sync_time"] is not None, stats
    table = fresh_table("second")
    table.create_entity(row("a", N=1))
    found = TableClient(house.secondary, table.table_name, credential=house.credential, **house.options)
    assert keys(found.list_entities()) == ["a"] and found.get_entity("p", "a")["N"] == 1
    error = fails(HttpResponseError, lambda: found.create_entity(row("b")))
    assert 400 <= error.status_code < 500, error
    assert keys(table.list_entities()) == ["a"], "the secondary is only read"


def test_versions():
    table = fresh_table("versions")
    for version in ("2019-02-02", "2019-07-07", "2020-12-06"):
        service = TableServiceClient(house.endpoint, credential=house.credential, api_version=version, **house.options)
        one = service.get_table_client(table.table_name)
        answer = one.create_entity(row(version, N=1))
        assert answer["version"] == version, answer
        one.submit_transaction([("upsert", row(version, M=2))])
        assert dict(one.get_entity("p", version)) == row(version, N=1, M=2)
        assert version in keys(one.query_entities("M eq 2"))
        service.get_service_properties()
    # Versions that the SDK does not know are sent by a header of one's own.
    for version in ("2013-08-15", "2015-04-05", "2017-07-29", "2024-11-04", "2027-01-01"):
        seen = []
        table.get_entity("p", "2019-02-02", headers={"x-ms-version": version}, raw_response_hook=seen.append)
        sent = seen[0].http_request.headers["x-ms-version"]
        assert seen[0].http_response.headers["x-ms-version"] == sent


def test_clients():
    name = f"{house.run}clients"
    table = TableClient.from_connection_string(house.connection, name, **house.options)
    with table:
        made = table.create_table()
        assert made.name == name
        error = fails(HttpResponseError, table.create_table)
        assert code(error) == "TableAlreadyExists", error
        table.create_entity(row("a"), headers={"x-ms-client-request-id": "one"})
    url = TableClient.from_table_url(f"{house.endpoint}/{name}", credential=house.credential, **house.options)
    assert keys(url.list_entities()) == ["a"]
    seen = []
    url.get_entity("p", "a", raw_response_hook=seen.append)
    headers = seen[0].http_response.headers
    assert headers["x-ms-client-request-id"] == seen[0].http_request.headers["x-ms-client-request-id"]
    url.delete_table()
    url.delete_table()  # The SDK takes "not there" for success.
    for bad in ("1abc", "a_b", "a-b", "tables", "x" * 64, "é"):
        fails((HttpResponseError, ValueError), lambda: house.service.create_table(bad))
    # An endpoint that ends with a table's name: the service reads what follows as an entity.
    wrong = TableServiceClient(f"{house.endpoint}/{name}", credential=house.credential, **house.options)
    error = fails(HttpResponseError, lambda: wrong.create_table(f"{house.run}other"))
    assert (error.status_code, code(error)) == (404, "TableNotFound"), error
