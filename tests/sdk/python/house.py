"""What the tests share: the server under its present address, and small helpers."""

import json
import os
import re
import socket
import time
from pathlib import Path

from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.data.tables import TableClient, TableServiceClient

CONNECTION = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
CASES = json.loads((Path(__file__).parent.parent / "cases.json").read_text(encoding="utf-8"))
NOT_MODIFIED = MatchConditions.IfNotModified
ACCOUNT = "devstoreaccount1"

found_by_system = socket.getaddrinfo


def getaddrinfo(host, *rest, **named):
    """Names below `localhost` are this machine's, whether or not its resolver knows that."""
    name = host.decode() if isinstance(host, bytes) else host
    return found_by_system("127.0.0.1" if name and name.endswith(".localhost") else host, *rest, **named)


socket.getaddrinfo = getaddrinfo


class House:
    """The server as a client sees it in one style of address."""

    def use(self, style, number):
        parts = dict(part.split("=", 1) for part in CONNECTION.strip(";").split(";"))
        port = re.search(r":(\d+)/", parts["TableEndpoint"])[1]
        scheme = "http"
        if style.startswith("tls"):
            scheme, port = "https", os.environ["SDK_TLS_PORT"]
        host, below = {
            "path": ("127.0.0.1{0}", f"/{ACCOUNT}{{0}}"),
            "host": (f"{ACCOUNT}{{0}}.table.localhost", ""),
            "localhost": ("localhost{0}", f"/{ACCOUNT}{{0}}"),
            "tls": ("127.0.0.1", f"/{ACCOUNT}{{0}}"),
        }[style]
        if below:
            host = host.format("")
        self.style = style
        self.options = {"retry_total": 0}
        if scheme == "https":
            self.options["connection_verify"] = os.environ["SDK_TLS_CA"]
        self.credential = AzureNamedKeyCredential(ACCOUNT, parts["AccountKey"])
        self.endpoint = f"{scheme}://{host.format('')}:{port}{below.format('')}"
        secondary = f"{host.format('-secondary')}:{port}{below.format('-secondary')}"
        self.secondary = f"{scheme}://{secondary}"
        self.connection = (
            f"DefaultEndpointsProtocol={scheme};AccountName={ACCOUNT};AccountKey={parts['AccountKey']};"
            f"TableEndpoint={self.endpoint};TableSecondaryEndpoint={secondary}"
        )
        self.service = TableServiceClient.from_connection_string(self.connection, **self.options)
        self.run = f"py{int(time.time() * 1000):x}{number}"

    def fresh_table(self, name):
        return self.service.create_table(f"{self.run}{name}")

    def table(self, name, sas):
        """A client of a table that has nothing but a shared access signature."""
        return TableClient(self.endpoint, name, credential=AzureSasCredential(sas), **self.options)


house = House()


def fresh_table(name):
    return house.fresh_table(name)


def fails(error, work):
    """The error that `work` raises; a failed test where it raises none."""
    try:
        work()
    except error as raised:
        return raised
    raise AssertionError(f"{error.__name__} was expected")


def code(error):
    """The service's error code, which the SDK puts in different places."""
    found = getattr(error, "error_code", None) or re.search(r'"code":"(\w+)"', str(error))
    return getattr(found, "value", None) or (found[1] if isinstance(found, re.Match) else found)


def keys(entities):
    return [entity["RowKey"] for entity in entities]


def row(row_key, partition_key="p", **properties):
    return {"PartitionKey": partition_key, "RowKey": row_key, **properties}
