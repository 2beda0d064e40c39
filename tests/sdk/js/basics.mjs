// Tables, values, writes, transactions, filters, pages and keys.

import assert from "node:assert/strict";
import { AzureNamedKeyCredential, TableServiceClient, odata } from "@azure/data-tables";
import { all, CASES, fails, freshTable, house, keys, plain, query, row } from "./house.mjs";

export const TESTS = {
  async tables() {
    const names = [..."abcde"].map((letter) => `${house.run}list${letter}`);
    for (const name of [...names].reverse()) await house.service.createTable(name);
    await house.service.createTable(names[0]); // The SDK takes "exists already" for success.
    const filter = `TableName ge '${house.run}list' and TableName lt '${house.run}lisu'`;
    const listed = await all(house.service.listTables({ queryOptions: { filter } }));
    assert.deepEqual(listed.map((table) => table.name), names);
    const one = await all(house.service.listTables({ queryOptions: { filter: odata`TableName eq ${names[2]}` } }));
    assert.deepEqual(one.map((table) => table.name), [names[2]]);
    const pages = await all(house.service.listTables({ queryOptions: { filter } }).byPage({ maxPageSize: 2 }));
    assert.deepEqual(pages.flat().map((table) => table.name), names);
    assert.ok(pages.every((page) => page.length <= 2));
    for (const name of names) await house.service.deleteTable(name);
    assert.deepEqual(await all(house.service.listTables({ queryOptions: { filter } })), []);
    await fails(404, "TableNotFound", () => house.client(names[0]).createEntity(row("r")));
    await house.client(names[0]).createTable();
    assert.deepEqual(await query(house.client(names[0])), [], "a table made again is empty");
  },

  async everyTypeComesBack() {
    const table = await freshTable("types");
    const entity = row("all", {
      Text: 'naïve 字 😀 " \\ \n\t {x}',
      Empty: "",
      Yes: true,
      No: false,
      Int: -(2 ** 31),
      Long: 2n ** 63n - 1n,
      Tiny: 5e-324,
      Half: 0.5,
      When: new Date("2024-02-29T23:59:59.123Z"),
      Early: new Date("1601-01-01T00:00:00Z"),
      Id: { type: "Guid", value: "12345678-9abc-def0-1234-56789abcdef0" },
      Bytes: Uint8Array.from({ length: 256 }, (_, i) => i),
    });
    await table.createEntity({ ...entity, Whole: { type: "Double", value: 3 }, Nan: { type: "Double", value: "NaN" }, Gone: null });
    const read = plain(await table.getEntity("p", "all"));
    read.Bytes = Uint8Array.from(read.Bytes);
    assert.deepEqual(read, { ...entity, Whole: 3, Nan: "NaN" });
    const raw = await table.getEntity("p", "all", { disableTypeConversion: true });
    assert.deepEqual(raw.Long, { type: "Int64", value: "9223372036854775807" });
    assert.equal(raw.When.type, "DateTime");
  },

  async writesAndConditions() {
    const table = await freshTable("writes");
    const first = (await table.createEntity(row("a", { A: 1, B: 2 }))).etag;
    await fails(409, "EntityAlreadyExists", () => table.createEntity(row("a")));
    const read = await table.getEntity("p", "a");
    assert.equal(read.etag, first);
    assert.ok(Math.abs(new Date(read.timestamp) - Date.now()) < 60_000);

    const second = (await table.updateEntity(row("a", { B: 3, C: 4 }), "Merge")).etag;
    assert.notEqual(second, first);
    assert.deepEqual(plain(await table.getEntity("p", "a")), row("a", { A: 1, B: 3, C: 4 }));
    for (const mode of ["Merge", "Replace"]) {
      await fails(412, "UpdateConditionNotSatisfied", () => table.updateEntity(row("a", { Z: 9 }), mode, { etag: first }));
    }
    await fails(412, "UpdateConditionNotSatisfied", () => table.deleteEntity("p", "a", { etag: first }));
    assert.deepEqual(plain(await table.getEntity("p", "a")), row("a", { A: 1, B: 3, C: 4 }), "a failed condition changes nothing");

    const third = (await table.updateEntity(row("a", { D: 5 }), "Replace", { etag: second })).etag;
    assert.deepEqual(plain(await table.getEntity("p", "a")), row("a", { D: 5 }));
    await table.upsertEntity(row("a", { E: 6 }), "Merge");
    assert.deepEqual(plain(await table.getEntity("p", "a")), row("a", { D: 5, E: 6 }));
    await table.upsertEntity(row("a", { F: 7 }), "Replace");
    assert.deepEqual(plain(await table.getEntity("p", "a")), row("a", { F: 7 }));
    await table.upsertEntity(row("b", { A: 1 }), "Merge");
    await table.upsertEntity(row("c", { A: 1 }), "Replace");
    assert.deepEqual(keys(await query(table)), ["a", "b", "c"]);
    for (const mode of ["Merge", "Replace"]) {
      await fails(404, "ResourceNotFound", () => table.updateEntity(row("none", { A: 1 }), mode));
    }
    await fails(404, "ResourceNotFound", () => table.deleteEntity("p", "none"));

    await fails(412, "UpdateConditionNotSatisfied", () => table.deleteEntity("p", "a", { etag: third }));
    const last = (await table.getEntity("p", "a")).etag;
    await table.deleteEntity("p", "a", { etag: last });
    await table.deleteEntity("p", "b");
    await fails(404, "ResourceNotFound", () => table.getEntity("p", "a"));
    assert.deepEqual(keys(await query(table)), ["c"]);
  },

  async transactions() {
    const table = await freshTable("batch");
    const hundred = Array.from({ length: 100 }, (_, n) => ["create", row(`${n}`.padStart(3, "0"), { N: n })]);
    const answer = await table.submitTransaction(hundred);
    assert.equal(answer.status, 202);
    assert.equal(answer.subResponses.length, 100);
    assert.ok(answer.subResponses.every((part) => part.status === 204 && part.etag));
    const { etag } = await table.getEntity("p", "003");
    await table.submitTransaction([
      ["create", row("new", { N: 1 })],
      ["upsert", row("000", { M: 1 }), "Merge"],
      ["upsert", row("001", { M: 1 }), "Replace"],
      ["update", row("002", { M: 1 }), "Merge"],
      ["update", row("003", { M: 1 }), "Replace", { etag }],
      ["delete", row("004")],
    ]);
    const found = Object.fromEntries((await query(table)).map((entity) => [entity.rowKey, plain(entity)]));
    assert.deepEqual(found["new"], row("new", { N: 1 }));
    assert.deepEqual(found["000"], row("000", { N: 0, M: 1 }));
    assert.deepEqual(found["001"], row("001", { M: 1 }));
    assert.deepEqual(found["002"], row("002", { N: 2, M: 1 }));
    assert.deepEqual(found["003"], row("003", { M: 1 }));
    assert.equal(found["004"], undefined);
    assert.equal(Object.keys(found).length, 100);
  },

  async aFailingOperationUndoesItsTransaction() {
    const table = await freshTable("undo");
    await table.createEntity(row("there", { N: 0 }));
    const { etag } = await table.getEntity("p", "there");
    await table.updateEntity(row("there", { N: 1 }));
    const failing = [
      [["create", row("there")], 409, "EntityAlreadyExists"],
      [["update", row("absent"), "Merge"], 404, "ResourceNotFound"],
      [["delete", row("absent")], 404, "ResourceNotFound"],
      [["update", row("there"), "Replace", { etag }], 412, "UpdateConditionNotSatisfied"],
      [["upsert", row("big", { S: "x".repeat(70_000) })], 400, "PropertyValueTooLarge"],
    ];
    for (const [operation, status, code] of failing) {
      for (const index of [0, 2, 4]) {
        const operations = Array.from({ length: 5 }, (_, n) => ["upsert", row(`n${n}`, { N: n })]);
        operations[index] = operation;
        const error = await fails(status, code, () => table.submitTransaction(operations));
        assert.ok(error.message.startsWith(`${index}:`), error.message);
        assert.deepEqual((await query(table)).map(plain), [row("there", { N: 1 })], "nothing is applied");
      }
    }
    const twice = [["upsert", row("x")], ["upsert", row("x")]];
    await fails(400, "", () => table.submitTransaction(twice));
    const tooMany = Array.from({ length: 101 }, (_, n) => ["create", row(`${n}`)]);
    await fails(400, "", () => table.submitTransaction(tooMany));
    assert.deepEqual(keys(await query(table)), ["there"]);
  },

  async everyOperatorOnEveryType() {
    const table = await freshTable("filters");
    const convert = {
      Int32: Number,
      Int64: BigInt,
      Double: (text) => ({ type: "Double", value: Number(text) }),
      Boolean: (text) => text === "true",
      DateTime: (text) => ({ type: "DateTime", value: text }),
      Guid: (text) => ({ type: "Guid", value: text }),
      Binary: (text) => Uint8Array.from(Buffer.from(text, "base64")),
      String: (text) => text,
    };
    for (const [rowKey, properties] of Object.entries(CASES.entities)) {
      const values = Object.entries(properties).map(([name, [edm, text]]) => [name, convert[edm](text)]);
      await table.createEntity(row(rowKey, Object.fromEntries(values)));
    }
    const wrong = [];
    for (const [filter, expected] of CASES.filters) {
      const found = keys(await query(table, filter)).join(" ");
      if (found !== expected) wrong.push(`${filter}: [${found}], expected [${expected}]`);
    }
    assert.deepEqual(wrong, []);
    for (const filter of CASES.bad_filters) {
      await fails(400, "InvalidInput", () => query(table, filter));
    }
    const day = new Date("2020-01-01T00:00:00Z");
    assert.deepEqual(keys(await query(table, odata`DT eq ${day} and S eq ${"a"} and I32 eq ${1} and B eq ${true}`)), ["r1"]);
  },

  async select() {
    const table = await freshTable("select");
    await table.createEntity(row("a", { A: 1, B: "b", C: 2.5 }));
    const [found] = await query(table, "A eq 1", ["A", "C", "Missing"]);
    assert.deepEqual(plain(found), { A: 1, C: 2.5, Missing: null });
    const one = await table.getEntity("p", "a", { queryOptions: { select: ["B", "rowKey"] } });
    assert.deepEqual(plain(one), { B: "b", rowKey: "a" });
  },

  async paging() {
    const table = await freshTable("paging");
    const expected = [];
    for (const partition of ["p1", "p2", "p3"]) {
      for (let start = 0; start < 900; start += 100) {
        const rows = Array.from({ length: 100 }, (_, n) => row(`${start + n}`.padStart(5, "0"), { N: start + n }, partition));
        await table.submitTransaction(rows.map((entity) => ["create", entity]));
        expected.push(...rows.map((entity) => `${partition}/${entity.rowKey}`));
      }
    }
    const pages = await all(table.listEntities().byPage());
    assert.deepEqual(pages.map((page) => page.length), [1000, 1000, 700]);
    assert.deepEqual(pages.flat().map((entity) => `${entity.partitionKey}/${entity.rowKey}`), expected);

    const filter = "PartitionKey eq 'p1'";
    const first = await table.listEntities({ queryOptions: { filter } }).byPage({ maxPageSize: 10 }).next();
    assert.deepEqual(keys(first.value), expected.slice(0, 10).map((key) => key.slice(3)));
    await table.deleteEntity("p1", "00010");
    const token = first.value.continuationToken;
    const next = await table.listEntities({ queryOptions: { filter } }).byPage({ maxPageSize: 10, continuationToken: token }).next();
    assert.deepEqual(keys(next.value), expected.slice(11, 21).map((key) => key.slice(3)), "the next row was deleted in between");
    const small = await all(table.listEntities({ queryOptions: { filter: "PartitionKey eq 'p2' and N ge 450" } }).byPage({ maxPageSize: 7 }));
    assert.equal(small.flat().length, 450);
  },

  async specialCharactersInKeys() {
    const table = await freshTable("keys");
    const names = [...CASES.keys, "k".repeat(512), "'".repeat(512)];
    for (const key of names) {
      await table.createEntity(row(key, { Same: key }, `p${key}`));
      const read = plain(await table.getEntity(`p${key}`, key));
      assert.deepEqual(read, row(key, { Same: key }, `p${key}`));
      await table.upsertEntity(row(key, { N: 0 }, "all"));
    }
    for (const key of names) {
      await table.updateEntity(row(key, { N: 1 }, "all"), "Merge");
      assert.deepEqual(keys(await query(table, odata`PartitionKey eq ${"all"} and RowKey eq ${key}`)), [key]);
    }
    const sorted = [...names].sort(); // JavaScript compares UTF-16 code units, as the service does.
    assert.deepEqual(keys(await query(table, "PartitionKey eq 'all'")), sorted);
    for (const key of names) await table.deleteEntity(`p${key}`, key);
    for (let start = 0; start < names.length; start += 100) {
      await table.submitTransaction(names.slice(start, start + 100).map((key) => ["delete", row(key, {}, "all")]));
    }
    assert.deepEqual(await query(table), []);
    for (const bad of ["a/b", "a\\b", "a#b", "a?b", "a\tb", "a\x7fb"]) {
      await fails(400, "", () => table.createEntity(row(bad)));
    }
  },

  async aWrongKeyIsRefused() {
    const credential = new AzureNamedKeyCredential("devstoreaccount1", Buffer.from("wrong".repeat(8)).toString("base64"));
    const wrong = new TableServiceClient(house.service.url, credential, house.options);
    await fails(403, "AuthenticationFailed", () => all(wrong.listTables()));
  },
};
