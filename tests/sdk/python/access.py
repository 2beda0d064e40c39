"""Shared access signatures that the SDK makes, stored policies, and tokens."""

import base64
import json
import time
from datetime import datetime, timedelta, timezone
from itertools import combinations

from azure.core.credentials import AccessToken, AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.data.tables import (
    AccountSasPermissions,
    ResourceTypes,
    TableAccessPolicy,
    TableClient,
    TableServiceClient,
    UpdateMode,
    generate_account_sas,
    generate_table_sas,
)
from house import ACCOUNT, code, fails, fresh_table, house, keys, row

HOUR = timedelta(hours=1)
MODES = (UpdateMode.MERGE, UpdateMode.REPLACE)


def now():
    return datetime.now(timezone.utc)


def table_sas(table, permission="raud", expiry=None, **fields):
    expiry = expiry or now() + HOUR
    return generate_table_sas(house.credential, table.table_name, permission=permission, expiry=expiry, **fields)


def refused(work, *codes):
    error = fails(HttpResponseError, work)
    assert error.status_code == 403 and code(error) in codes, (error.status_code, code(error), codes, error)


def entity_operations(owner, table):
    """Each operation on entities: its name, the letters that it needs, and the work."""

    def fresh(key):
        owner.upsert_entity(row(key, N=0))
        return row(key, N=1)

    yield "get", "r", lambda: table.get_entity("p", "there")
    yield "query", "r", lambda: list(table.query_entities("N eq 0"))
    yield "list", "r", lambda: list(table.list_entities())
    yield "create", "a", lambda: (owner.delete_entity("p", "new"), table.create_entity(row("new")))
    for mode in MODES:
        yield f"update {mode}", "u", lambda m=mode: table.update_entity(row("there", N=0), mode=m)
        yield f"upsert {mode}", "au", lambda m=mode: table.upsert_entity(row("there", N=0), mode=m)
        one = {"mode": mode}
        yield f"transaction update {mode}", "u", lambda o=one: table.submit_transaction([("update", row("there", N=0), o)])
        yield f"transaction upsert {mode}", "au", lambda o=one: table.submit_transaction([("upsert", row("there", N=0), o)])
    yield "delete", "d", lambda: (fresh("old"), table.delete_entity("p", "old"))
    yield "transaction create", "a", lambda: (owner.delete_entity("p", "new"), table.submit_transaction([("create", row("new"))]))
    yield "transaction delete", "d", lambda: (fresh("old"), table.submit_transaction([("delete", row("old"))]))
    several = [("update", row("there", N=0)), ("create", row("new"))]
    yield "transaction of two", "au", lambda: (owner.delete_entity("p", "new"), table.submit_transaction(several))


def test_table_sas_allows_what_its_letters_say():
    owner = fresh_table("letters")
    owner.create_entity(row("there", N=0))
    sets = ["".join(letters) for count in range(1, 5) for letters in combinations("raud", count)]
    assert len(sets) == 15
    for letters in sets:
        guest = house.table(owner.table_name, table_sas(owner, letters))
        for name, needed, work in entity_operations(owner, guest):
            if set(needed) <= set(letters):
                work()
            else:
                refused(work, "AuthorizationPermissionMismatch")
        refused(guest.get_table_access_policy, "AuthorizationFailure", "AuthorizationPermissionMismatch")
        refused(lambda: guest.set_table_access_policy({}), "AuthorizationFailure", "AuthorizationPermissionMismatch")
        refused(guest.delete_table, "AuthorizationFailure", "AuthorizationPermissionMismatch")
    other = fresh_table("otherletters")
    refused(lambda: list(house.table(other.table_name, table_sas(owner)).list_entities()), "AuthenticationFailed", "AuthorizationFailure")
    upper = house.table(owner.table_name.upper(), table_sas(owner))
    assert keys(upper.query_entities("RowKey eq 'there'")) == ["there"]
    url = TableClient.from_table_url(f"{house.endpoint}/{owner.table_name}?{table_sas(owner)}", **house.options)
    assert url.get_entity("p", "there")["N"] == 0


def test_account_sas_allows_what_its_letters_say():
    owner = fresh_table("account")
    owner.create_entity(row("there", N=0))
    made = house.service.get_table_client(f"{house.run}made")
    for types in "sco":
        for letter in "rwdlacu":
            sas = generate_account_sas(
                house.credential, ResourceTypes.from_string(types), AccountSasPermissions.from_string(letter), now() + HOUR
            )
            guest = TableServiceClient(house.endpoint, credential=AzureSasCredential(sas), **house.options)
            made_by_guest = guest.get_table_client(made.table_name)
            operations = [
                ("s", "r", guest.get_service_properties),
                ("s", "w", lambda: guest.set_service_properties(cors=[])),
                ("sc", "l", lambda: list(guest.list_tables())),
                ("c", "cw", lambda: (made.delete_table(), made_by_guest.create_table())),
                ("c", "d", lambda: (house.service.create_table_if_not_exists(made.table_name), made_by_guest.delete_table())),
            ]
            table = guest.get_table_client(owner.table_name)
            for _, needed, work in entity_operations(owner, table):
                operations.append(("o", needed if len(needed) == 1 else "", work))
            for wanted_types, needed, work in operations:
                if types not in wanted_types:
                    refused(work, "AuthorizationResourceTypeMismatch")
                elif letter not in needed:
                    refused(work, "AuthorizationPermissionMismatch")
                else:
                    work()
            refused(table.get_table_access_policy, "AuthorizationFailure", "AuthorizationResourceTypeMismatch", "AuthorizationPermissionMismatch")
    sas = generate_account_sas(house.credential, ResourceTypes(service=True, container=True, object=True), "rwdlacu", now() + HOUR)
    whole = TableServiceClient(house.endpoint, credential=AzureSasCredential(sas), **house.options)
    for _, _, work in entity_operations(owner, whole.get_table_client(owner.table_name)):
        work()
    # The SDK leaves a signature in the endpoint's URL out of transactions.
    url = TableServiceClient(f"{house.endpoint}/?{sas}", **house.options).get_table_client(owner.table_name)
    assert url.get_entity("p", "there")["N"] == 0
    refused(lambda: url.submit_transaction([("upsert", row("there"))]), "AuthenticationFailed")


def test_key_ranges():
    owner = fresh_table("ranges")
    cells = [(p, r) for p in "abcd" for r in "1234"]
    for p, r in cells:
        owner.create_entity(row(r, p))
    bounds = [
        ({}, lambda c: True),
        ({"start_pk": "b"}, lambda c: c[0] >= "b"),
        ({"end_pk": "b"}, lambda c: c[0] <= "b"),
        ({"start_pk": "b", "end_pk": "c"}, lambda c: "b" <= c[0] <= "c"),
        ({"start_pk": "b", "start_rk": "3"}, lambda c: c >= ("b", "3")),
        ({"end_pk": "c", "end_rk": "2"}, lambda c: c <= ("c", "2")),
        ({"start_pk": "b", "start_rk": "3", "end_pk": "c", "end_rk": "2"}, lambda c: ("b", "3") <= c <= ("c", "2")),
        ({"start_pk": "d", "end_pk": "a"}, lambda c: False),
    ]
    for fields, inside in bounds:
        guest = house.table(owner.table_name, table_sas(owner, **fields))
        expected = [cell for cell in cells if inside(cell)]
        for found in (guest.list_entities(), guest.list_entities(results_per_page=2), guest.query_entities("RowKey ge '1'")):
            assert [(e["PartitionKey"], e["RowKey"]) for e in found] == expected, fields
        for cell in cells:
            entity = row(cell[1], cell[0])
            works = [
                lambda: guest.upsert_entity(entity),
                lambda: guest.update_entity(entity),
                lambda: guest.submit_transaction([("upsert", entity)]),
            ]
            if inside(cell):
                guest.get_entity(*cell)
                for work in works:
                    work()
                guest.delete_entity(*cell)
                guest.create_entity(entity)
            else:
                error = fails(HttpResponseError, lambda: guest.get_entity(*cell))
                assert error.status_code == 404, error
                works += [lambda: guest.delete_entity(*cell), lambda: guest.create_entity(entity)]
                for work in works:
                    refused(work, "AuthorizationFailure")


test_key_ranges.styles = ["path", "tls"]


def test_access_policies():
    table = fresh_table("policies")
    assert table.get_table_access_policy() == {}
    start, expiry = datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc), datetime(2040, 1, 1, tzinfo=timezone.utc)
    policies = {
        "whole": TableAccessPolicy(start=start, expiry=expiry, permission="raud"),
        "letters": TableAccessPolicy(permission="r"),
        "end": TableAccessPolicy(expiry=expiry),
        "名 &<>'\"": TableAccessPolicy(permission="ra", expiry=expiry),
        "i" * 64: None,
    }
    table.set_table_access_policy(policies)
    found = table.get_table_access_policy()
    assert list(found) == list(policies), list(found)
    assert (found["whole"].start, found["whole"].expiry, found["whole"].permission) == (start, expiry, "raud")
    assert found["letters"].permission == "r" and found["end"].expiry == expiry
    fails(ValueError, lambda: table.set_table_access_policy({str(n): TableAccessPolicy() for n in range(6)}))
    error = fails(HttpResponseError, lambda: table.set_table_access_policy({"i" * 65: TableAccessPolicy(permission="r")}))
    assert error.status_code == 400, error
    assert list(table.get_table_access_policy()) == list(policies), "a refused list changes nothing"
    table.set_table_access_policy({})
    assert table.get_table_access_policy() == {}
    absent = house.service.get_table_client(f"{house.run}absent")
    for work in (absent.get_table_access_policy, lambda: absent.set_table_access_policy({})):
        error = fails(HttpResponseError, work)
        assert (error.status_code, code(error)) == (404, "TableNotFound"), error


def test_stored_policies_are_asked_each_time():
    table = fresh_table("stored")
    table.create_entity(row("a"))
    sas = generate_table_sas(house.credential, table.table_name, policy_id="own")
    guest = house.table(table.table_name, sas)
    refused(lambda: list(guest.list_entities()), "AuthenticationFailed")
    day = timedelta(days=1)
    table.set_table_access_policy({"own": TableAccessPolicy(start=now() - day, expiry=now() + day, permission="r")})
    assert keys(guest.list_entities()) == ["a"]
    refused(lambda: guest.create_entity(row("b")), "AuthorizationPermissionMismatch")
    table.set_table_access_policy({"own": TableAccessPolicy(expiry=now() + day, permission="ra")})
    guest.create_entity(row("b"))
    table.set_table_access_policy({"own": TableAccessPolicy(start=now() - 2 * day, expiry=now() - day, permission="ra")})
    refused(lambda: list(guest.list_entities()), "AuthenticationFailed")
    table.set_table_access_policy({"own": TableAccessPolicy(start=now() + day, expiry=now() + 2 * day, permission="ra")})
    refused(lambda: list(guest.list_entities()), "AuthenticationFailed")
    table.set_table_access_policy({"own": TableAccessPolicy(permission="r")})
    refused(lambda: list(guest.list_entities()), "AuthenticationFailed")
    mixed = generate_table_sas(house.credential, table.table_name, policy_id="own", expiry=now() + HOUR)
    assert keys(house.table(table.table_name, mixed).list_entities()) == ["a", "b"]
    table.set_table_access_policy({})
    refused(lambda: house.table(table.table_name, mixed).get_entity("p", "a"), "AuthenticationFailed")


def test_what_else_a_signature_says():
    table = fresh_table("signed")
    table.create_entity(row("a"))

    def read(**fields):
        return lambda: keys(house.table(table.table_name, table_sas(table, **fields)).list_entities())

    assert read()() == ["a"]
    refused(read(expiry=now() - HOUR), "AuthenticationFailed")
    refused(read(start=now() + HOUR, expiry=now() + 2 * HOUR), "AuthenticationFailed")
    assert read(start=now() - HOUR)() == ["a"]
    assert read(ip_address_or_range="127.0.0.1")() == ["a"]
    assert read(ip_address_or_range="127.0.0.0-127.0.0.9")() == ["a"]
    refused(read(ip_address_or_range="10.0.0.1"), "AuthorizationSourceIPMismatch")
    assert read(protocol="https,http")() == ["a"]
    if house.endpoint.startswith("https"):
        assert read(protocol="https")() == ["a"]
    else:
        refused(read(protocol="https"), "AuthorizationProtocolMismatch")
    sas = table_sas(table, "r")
    for bent in (sas.replace("sp=r", "sp=raud"), sas.replace("sig=", "sig=A"), sas.replace("se=20", "se=21")):
        assert bent != sas
        refused(lambda: list(house.table(table.table_name, bent).list_entities()), "AuthenticationFailed")
    stranger = AzureNamedKeyCredential(ACCOUNT, base64.b64encode(b"wrong" * 8).decode())
    sas = generate_table_sas(stranger, table.table_name, permission="r", expiry=now() + HOUR)
    refused(lambda: list(house.table(table.table_name, sas).list_entities()), "AuthenticationFailed")
    credential = AzureSasCredential(sas)
    guest = TableClient(house.endpoint, table.table_name, credential=credential, **house.options)
    fails(ClientAuthenticationError, lambda: guest.get_entity("p", "a"))
    credential.update(table_sas(table, "r"))
    assert dict(guest.get_entity("p", "a")) == row("a"), "a signature is renewed in place"


class Tokens:
    """Unsigned tokens, as a development server takes them."""

    def __init__(self, **claims):
        self.claims = claims

    def get_token(self, *_scopes, **_options):
        start = int(time.time()) - 60
        claims = {
            "aud": "https://storage.azure.com",
            "iss": "https://sts.windows.net/11111111-1111-1111-1111-111111111111/",
            "nbf": start,
            "exp": start + 3600,
            "oid": "22222222-2222-2222-2222-222222222222",
            **self.claims,
        }
        parts = [{"alg": "none", "typ": "JWT"}, claims]
        text = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
        return AccessToken(".".join(text) + ".c2ln", start + 3600)


def test_tokens():
    table = fresh_table("bearer")
    table.create_entity(row("a"))

    def service(**claims):
        return TableServiceClient(house.endpoint, credential=Tokens(**claims), api_version="2020-12-06", **house.options)

    guest = service().get_table_client(table.table_name)
    assert keys(guest.list_entities()) == ["a"]
    guest.create_entity(row("b", N=1))
    guest.submit_transaction([("upsert", row("c")), ("delete", row("b"))])
    assert keys(guest.query_entities("PartitionKey eq 'p'")) == ["a", "c"]
    assert table.table_name in [item.name for item in service().list_tables()]
    for claims in ({"aud": "https://example.com"}, {"exp": int(time.time()) - 60}, {"iss": "https://example.com/"}, {"nbf": int(time.time()) + 3600}):
        bad = service(**claims).get_table_client(table.table_name)
        error = fails(ClientAuthenticationError, lambda: list(bad.list_entities()))
        assert error.status_code == 401, error


test_tokens.styles = ["tls"]
