"""Microsoft's own Python SDK, unmodified, against the server that the connection string names.

    AZURE_STORAGE_CONNECTION_STRING=… python run.py [TEST]...

Every `test_` function of the files beside this one runs in each style of address: the account in the
path, the account in the host's name, and `localhost`, where the SDK sends merges through POST; over TLS
where SDK_TLS_PORT and SDK_TLS_CA say how. Exits with 1 where one fails.
"""

import os
import sys
import time
import traceback

import access
import asynchronous
import basics
import entities
import keys
import metrics
import service
from house import house

STYLES = ["path", "host", "localhost"] + (["tls"] if os.environ.get("SDK_TLS_PORT") else [])
FILES = [basics, entities, keys, access, service, asynchronous, metrics]


def run(test, name):
    try:
        test()
        return True
    except Exception:  # pylint: disable=broad-except
        print(f"FAILED  {house.style}: {name}\n{traceback.format_exc()}")
        return False


def main():
    only = sys.argv[1:]
    tests = [(n, f) for file in FILES for n, f in vars(file).items() if n.startswith("test_") and (not only or n in only)]
    passed = asked = 0
    for number, style in enumerate(STYLES):
        house.use(style, number)
        for name, test in tests:
            needed = getattr(test, "styles", STYLES)
            if style not in needed:
                continue
            start = time.monotonic()
            asked += 1
            if run(test, name):
                passed += 1
                print(f"ok      {style}: {name} ({time.monotonic() - start:.1f} s)")
        for table in house.service.query_tables(f"TableName ge '{house.run}' and TableName lt '{house.run}~'"):
            house.service.delete_table(table.name)
    if "tls" not in STYLES:
        print("SKIPPED: TLS, because SDK_TLS_PORT is not set")
    print(f"python: {passed} of {asked} passed")
    return 0 if asked and passed == asked else 1


if __name__ == "__main__":
    sys.exit(main())
