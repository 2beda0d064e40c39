"""Writes golden.parquet and golden.jsonl, what another program makes of every type that we read.

    pip install pyarrow==26.0.1 && python3 golden.py

The lines are written from the values, not from the file.
"""

import datetime
import decimal
import json
import pathlib
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

here = pathlib.Path(__file__).parent
epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def moment(ticks):
    """Ticks of 100 ns after 1970, as the protocol writes them."""
    whole = epoch + datetime.timedelta(seconds=ticks // 10**7)
    fraction = f".{ticks % 10**7:07}".rstrip("0").rstrip(".")
    return whole.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


ROWS = 60
rows = range(ROWS)
lack = lambda n, step: n % step == 0
NS = 1_363_000_000_000_000_000

columns, lines = {}, [{"PartitionKey": f"p{n % 3}", "RowKey": f"{n:04}"} for n in rows]
columns["PartitionKey"] = pa.array([line["PartitionKey"] for line in lines])
columns["RowKey"] = pa.array([line["RowKey"] for line in lines])


def column(name, kind, step, value, edm=None, said=lambda value: value):
    values = [None if lack(n, step) else value(n) for n in rows]
    columns[name] = pa.array(values, type=kind)
    for line, value in zip(lines, values):
        if value is not None:
            if edm:
                line[f"{name}@odata.type"] = f"Edm.{edm}"
            line[name] = said(value)


column("text", pa.string(), 7, lambda n: f"text {n % 5} é\n")
column("large", pa.large_string(), 11, lambda n: f"{n}" * 3)
column("few", pa.dictionary(pa.int8(), pa.string()), 9, lambda n: ["a", "b"][n % 2])
column("i8", pa.int8(), 5, lambda n: n % 256 - 128)
column("u16", pa.uint16(), 5, lambda n: n * 200)
column("i32", pa.int32(), 3, lambda n: (-1) ** n * (2**31 - 1 - n))
column("u32", pa.uint32(), 4, lambda n: 2**32 - 1 - n, "Int64", str)
column("i64", pa.int64(), 2, lambda n: -(2**63) + n, "Int64", str)
column("single", pa.float32(), 6, lambda n: n / 8)
column("double", pa.float64(), 13, lambda n: n + 0.1)
column("flag", pa.bool_(), 10, lambda n: n % 3 == 0)
column("bytes", pa.binary(), 8, lambda n: bytes([n % 256]), "Binary", lambda b: __import__("base64").b64encode(b).decode())
column("fixed", pa.binary(3), 8, lambda n: bytes([n % 256, 0, 255]), "Binary", lambda b: __import__("base64").b64encode(b).decode())
column("guid", pa.uuid(), 12, lambda n: uuid.UUID(int=n << 64 | 7).bytes, "Guid", lambda b: str(uuid.UUID(bytes=b)))
column("ns", pa.timestamp("ns", "UTC"), 6, lambda n: NS + n * 100, "DateTime", lambda t: moment(t // 100))
column("us", pa.timestamp("us"), 6, lambda n: NS // 1000 + n, "DateTime", lambda t: moment(t * 10))
column("ms", pa.timestamp("ms", "Europe/Berlin"), 6, lambda n: n - 150, "DateTime", lambda t: moment(t * 10**4))
column("day", pa.date32(), 6, lambda n: datetime.date(1601, 1, 1) + datetime.timedelta(n), "DateTime", lambda d: f"{d}T00:00:00Z")

codecs = ["NONE", "SNAPPY", "GZIP"]
chosen = {name: codecs[at % len(codecs)] for at, name in enumerate(columns)}
table = pa.table(columns)
pq.write_table(
    table,
    here / "golden.parquet",
    row_group_size=25,
    data_page_size=400,
    compression=chosen,
    use_dictionary=["text", "few", "i8"],
    column_encoding={"large": "DELTA_LENGTH_BYTE_ARRAY", "i64": "DELTA_BINARY_PACKED"},
    data_page_version="2.0",
    write_page_checksum=True,
    store_schema=False,
)
with open(here / "golden.jsonl", "w") as out:
    for line in lines:
        out.write(json.dumps(line, ensure_ascii=False) + "\n")

# What no property holds, and what older programs wrote.
odd = pa.table(
    {
        "PartitionKey": pa.array(["p", "p"]),
        "RowKey": pa.array(["1", "2"]),
        "list": pa.array([[1, 2], []], pa.list_(pa.int32())),
        "struct": pa.array([{"a": 1}, {"a": 2}]),
        "price": pa.array([decimal.Decimal("1.5"), None], pa.decimal128(9, 2)),
        "hour": pa.array([datetime.time(1), None], pa.time64("us")),
        "u64": pa.array([1, 2], pa.uint64()),
        "seen": pa.array([datetime.datetime(2001, 2, 3, 4, 5, 6, 7), None], pa.timestamp("ns")),
        "exact": pa.array([NS + 1, NS + 100], pa.timestamp("ns")),
    }
)
pq.write_table(table.slice(0, 3), here / "zstd.parquet", compression="ZSTD", store_schema=False)
pq.write_table(odd, here / "odd.parquet", use_deprecated_int96_timestamps=False, store_schema=False)
pq.write_table(
    odd.select(["PartitionKey", "RowKey", "seen"]),
    here / "julian.parquet",
    use_deprecated_int96_timestamps=True,
    data_page_version="1.0",
    store_schema=False,
)
