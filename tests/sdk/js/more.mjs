// The service, and what the SDK can do with entities beyond the basics.

import assert from "node:assert/strict";
import { TableTransaction, odata } from "@azure/data-tables";
import { all, CASES, fails, freshTable, house, keys, plain, query, row } from "./house.mjs";

const VALUES = {
  Text: "naïve 'quoted' & 字 😀",
  Yes: true,
  Int: -7,
  Long: 2n ** 53n + 1n,
  Half: 2.5,
  When: new Date("2024-02-29T23:59:59.123Z"),
  Id: { type: "Guid", value: "12345678-9abc-def0-1234-56789abcdef0" },
  Bytes: Uint8Array.from([0, 255, 39]),
};

/** A client whose requests carry other headers than the SDK would send. */
function withHeaders(name, headers) {
  const policy = {
    name: "headers",
    sendRequest(request, next) {
      for (const [header, value] of Object.entries(headers)) request.headers.set(header, value);
      return next(request);
    },
  };
  const table = house.client(name);
  table.pipeline.addPolicy(policy, { afterPhase: "Serialize" });
  return table;
}

export const TESTS = {
  async serviceProperties() {
    const before = await house.service.getProperties();
    const retentionPolicy = { enabled: true, days: 5 };
    const properties = {
      logging: { version: "1.0", delete: true, read: true, write: true, retentionPolicy },
      hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy },
      minuteMetrics: { version: "1.0", enabled: false, retentionPolicy: { enabled: false } },
      cors: [
        { allowedOrigins: "http://a.example,http://b.example", allowedMethods: "GET,PUT", allowedHeaders: "x-ms-meta-*", exposedHeaders: "x-ms-*", maxAgeInSeconds: 500 },
        { allowedOrigins: "*", allowedMethods: "GET", allowedHeaders: "", exposedHeaders: "", maxAgeInSeconds: 0 },
      ],
    };
    await house.service.setProperties(properties);
    const found = await house.service.getProperties();
    for (const name of Object.keys(properties)) assert.deepEqual(JSON.parse(JSON.stringify(found[name])), properties[name], name); // Without what is undefined.
    await house.service.setProperties({ cors: [] });
    const after = await house.service.getProperties();
    assert.equal((after.cors ?? []).length, 0);
    assert.deepEqual(after.hourMetrics, properties.hourMetrics, "what is not named stays");
    const many = Array.from({ length: 6 }, (_, n) => ({ ...properties.cors[1], allowedOrigins: `http://${n}.example` }));
    await house.service.setProperties({ cors: many.slice(1) });
    await fails(400, "", () => house.service.setProperties({ cors: many }));
    assert.equal((await house.service.getProperties()).cors.length, 5, "a refused list changes nothing");
    await house.service.setProperties({ logging: before.logging, hourMetrics: before.hourMetrics, minuteMetrics: before.minuteMetrics, cors: before.cors ?? [] });
  },

  async metadataLevelsAndVersions() {
    const table = await freshTable("levels");
    await table.createEntity(row("a", VALUES));
    const expected = plain(await table.getEntity("p", "a"));
    for (const level of ["minimalmetadata", "fullmetadata"]) {
      const one = withHeaders(table.tableName, { accept: `application/json;odata=${level}` });
      const read = await one.getEntity("p", "a");
      for (const [name, value] of Object.entries(expected)) assert.deepEqual(read[name], value, `${level} ${name}`);
      assert.deepEqual(keys(await query(one, "Int eq -7")), ["a"]);
    }
    const bare = await withHeaders(table.tableName, { accept: "application/json;odata=nometadata" }).getEntity("p", "a");
    assert.equal(bare.Text, VALUES.Text);
    for (const version of ["2009-09-19", "2013-08-15", "2015-04-05", "2017-07-29", "2020-12-06", "2027-01-01"]) {
      let seen;
      const one = withHeaders(table.tableName, { "x-ms-version": version });
      assert.deepEqual(plain(await one.getEntity("p", "a", { onResponse: (response) => (seen = response) })), expected, version);
      assert.equal(seen.headers.get("x-ms-version"), version);
    }
  },

  async parametersOfEveryType() {
    const table = await freshTable("parameters");
    await table.createEntity(row("a", VALUES));
    await table.createEntity(row("none"));
    const literals = { Id: "guid'12345678-9abc-def0-1234-56789abcdef0'", Bytes: "X'00ff27'", Long: "9007199254740993L" };
    for (const [name, value] of Object.entries(VALUES)) {
      for (const operator of ["eq", "ge", "le"]) {
        const filter = literals[name] ? `${name} ${operator} ${literals[name]}` : odata([`${name} ${operator} `, ""], value);
        assert.deepEqual(keys(await query(table, filter)), ["a"], filter);
      }
    }
    const text = VALUES.Text;
    assert.deepEqual(keys(await query(table, odata`Text eq ${text} and Yes eq ${true} and Int eq ${-7} and When eq ${VALUES.When}`)), ["a"]);
  },

  async tokensOfPages() {
    const names = Array.from({ length: 7 }, (_, n) => `${house.run}page${n}`);
    for (const name of names) await house.service.createTable(name);
    const filter = `TableName ge '${names[0]}' and TableName le '${names.at(-1)}'`;
    const table = await freshTable("tokens");
    const expected = [];
    for (const partition of ["", "p", "字"]) {
      const rows = Array.from({ length: 40 }, (_, n) => row(`${n}`.padStart(3, "0"), { N: n }, partition));
      await table.submitTransaction(rows.map((entity) => ["create", entity]));
      expected.push(...rows.map((entity) => `${partition}/${entity.rowKey}`));
    }
    for (const maxPageSize of [1, 3, 7, 40, 41, 120, 1000]) {
      for (const [list, shown, wanted] of [
        [() => house.service.listTables({ queryOptions: { filter } }), (one) => one.name, names],
        [() => table.listEntities(), (one) => `${one.partitionKey}/${one.rowKey}`, expected],
      ]) {
        const found = [];
        let continuationToken;
        do {
          const { value } = await list().byPage({ maxPageSize, continuationToken }).next();
          assert.ok(value.length <= maxPageSize);
          found.push(...value.map(shown));
          continuationToken = value.continuationToken;
        } while (continuationToken);
        assert.deepEqual(found, wanted, `${maxPageSize}`);
      }
    }
  },

  async everyVerbFailsAtEveryPlace() {
    const table = await freshTable("places");
    await table.createEntity(row("there", { N: 0 }));
    const { etag } = await table.getEntity("p", "there");
    await table.updateEntity(row("there", { N: 1 }));
    const failing = [[["create", row("there")], 409, "EntityAlreadyExists"], [["delete", row("absent")], 404, "ResourceNotFound"]];
    for (const mode of ["Merge", "Replace"]) {
      failing.push([["update", row("absent"), mode], 404, "ResourceNotFound"]);
      failing.push([["update", row("there"), mode, { etag }], 412, "UpdateConditionNotSatisfied"]);
      failing.push([["upsert", row("there", { S: "x".repeat(40_000) }), mode], 400, "PropertyValueTooLarge"]);
    }
    for (const [operation, status, code] of failing) {
      for (const [count, index] of [[2, 0], [2, 1], [5, 2], [100, 50], [100, 99]]) {
        const operations = Array.from({ length: count }, (_, n) => ["upsert", row(`n${n}`, { N: n })]);
        operations[index] = operation;
        const error = await fails(status, code, () => table.submitTransaction(operations));
        assert.ok(error.message.startsWith(`${index}:`), error.message);
        assert.deepEqual((await query(table)).map(plain), [row("there", { N: 1 })], "nothing is applied");
      }
    }
    await fails(404, "TableNotFound", () => house.client(`${house.run}absent`).submitTransaction([["create", row("a")]]));
    const transaction = new TableTransaction();
    transaction.createEntity(row("one"));
    transaction.upsertEntity(row("two"), "Replace");
    transaction.updateEntity(row("there", { M: 2 }), "Merge");
    transaction.deleteEntity("p", "gone");
    await table.createEntity(row("gone"));
    const answer = await table.submitTransaction(transaction.actions);
    assert.deepEqual(answer.subResponses.map((part) => part.status), [204, 204, 204, 204]);
    assert.deepEqual(keys(await query(table)), ["one", "there", "two"]);
  },

  async everyKeyInTransactionsAndPages() {
    const names = CASES.keys;
    assert.ok(names.length >= 120);
    const table = await freshTable("together");
    const submit = async (make) => {
      for (let start = 0; start < names.length; start += 100) await table.submitTransaction(names.slice(start, start + 100).map(make));
    };
    await submit((key) => ["create", row(key, { N: 0 })]);
    const sorted = [...names].sort();
    const pages = await all(table.listEntities().byPage({ maxPageSize: 1 }));
    assert.deepEqual(keys(pages.flat()), sorted);
    for (const mode of ["Merge", "Replace"]) {
      await submit((key) => ["update", row(key, { N: 1 }), mode]);
      await submit((key) => ["upsert", row(key, { N: 2 }), mode]);
    }
    assert.ok((await query(table)).every((entity) => entity.N === 2));
    await submit((key) => ["delete", row(key)]);
    assert.deepEqual(await query(table), []);
  },
};
