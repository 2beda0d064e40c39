// Shared access signatures that the SDK makes, and stored policies.

import assert from "node:assert/strict";
import { AzureNamedKeyCredential, AzureSASCredential, TableClient, TableServiceClient, generateAccountSas, generateTableSas } from "@azure/data-tables";
import { all, fails, freshTable, house, keys, query, row } from "./house.mjs";

const LETTERS = { r: "query", a: "add", u: "update", d: "delete" };
const hours = (count) => new Date(Date.now() + count * 3_600_000);
const permissionsOf = (letters, names) => Object.fromEntries([...letters].map((letter) => [names[letter], true]));
const tableSas = (table, options) => generateTableSas(table.tableName, house.credential, { expiresOn: hours(1), permissions: permissionsOf("raud", LETTERS), ...options });
const refused = (work, ...codes) => fails(403, codes, work);

/** Each operation on entities: the letters that it needs, and the work. */
function entityOperations(owner, table) {
  const without = (work) => async () => {
    await owner.deleteEntity("p", "new").catch(() => {});
    return work();
  };
  const withOld = (work) => async () => {
    await owner.upsertEntity(row("old"));
    return work();
  };
  return [
    ["r", () => table.getEntity("p", "there")],
    ["r", () => query(table, "N eq 0")],
    ["a", without(() => table.createEntity(row("new")))],
    ["a", without(() => table.submitTransaction([["create", row("new")]]))],
    ["d", withOld(() => table.deleteEntity("p", "old"))],
    ["d", withOld(() => table.submitTransaction([["delete", row("old")]]))],
    ...["Merge", "Replace"].flatMap((mode) => [
      ["u", () => table.updateEntity(row("there", { N: 0 }), mode)],
      ["au", () => table.upsertEntity(row("there", { N: 0 }), mode)],
      ["u", () => table.submitTransaction([["update", row("there", { N: 0 }), mode]])],
      ["au", () => table.submitTransaction([["upsert", row("there", { N: 0 }), mode]])],
    ]),
  ];
}

/** Unsigned tokens, as a development server takes them. */
class Tokens {
  constructor(claims) {
    this.claims = claims;
  }

  async getToken() {
    const start = Math.floor(Date.now() / 1000) - 60;
    const claims = {
      aud: "https://storage.azure.com",
      iss: "https://sts.windows.net/11111111-1111-1111-1111-111111111111/",
      nbf: start,
      exp: start + 3600,
      oid: "22222222-2222-2222-2222-222222222222",
      ...this.claims,
    };
    const parts = [{ alg: "none", typ: "JWT" }, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"));
    return { token: `${parts.join(".")}.c2ln`, expiresOnTimestamp: (start + 3600) * 1000 };
  }
}

export const TESTS = {
  async tableSasAllowsWhatItsLettersSay() {
    const owner = await freshTable("letters");
    await owner.createEntity(row("there", { N: 0 }));
    for (let set = 1; set < 16; set += 1) {
      const letters = [..."raud"].filter((_, place) => set & (1 << place)).join("");
      const guest = house.guest(owner.tableName, tableSas(owner, { permissions: permissionsOf(letters, LETTERS) }));
      for (const [needed, work] of entityOperations(owner, guest)) {
        if ([...needed].every((letter) => letters.includes(letter))) await work();
        else await refused(work, "AuthorizationPermissionMismatch");
      }
      await refused(() => guest.getAccessPolicy(), "AuthorizationFailure");
      await refused(() => guest.setAccessPolicy([]), "AuthorizationFailure");
    }
    const other = await freshTable("other");
    await refused(() => query(house.guest(other.tableName, tableSas(owner))), "AuthenticationFailed", "AuthorizationFailure");
  },

  async accountSasAllowsWhatItsLettersSay() {
    const owner = await freshTable("account");
    await owner.createEntity(row("there", { N: 0 }));
    const made = `${house.run}made`;
    const names = { r: "query", w: "write", d: "delete", l: "list", a: "add", u: "update" };
    for (const resourceTypes of "sco") {
      for (const letter of "rwdlau") {
        const sas = generateAccountSas(house.credential, { expiresOn: hours(1), resourceTypes, permissions: permissionsOf(letter, names) });
        const guest = new TableServiceClient(house.endpoint, new AzureSASCredential(sas), house.options);
        const table = house.guest(owner.tableName, sas);
        const operations = [
          ["s", "r", () => guest.getProperties()],
          ["s", "w", () => guest.setProperties({ cors: [] })],
          ["sc", "l", () => all(guest.listTables())],
          ["c", "w", async () => (await house.service.deleteTable(made), guest.createTable(made))],
          ["c", "d", async () => (await house.service.createTable(made), guest.deleteTable(made))],
          ...entityOperations(owner, table).map(([needed, work]) => ["o", needed.length === 1 ? needed : "", work]),
        ];
        for (const [types, needed, work] of operations) {
          if (!types.includes(resourceTypes)) await refused(work, "AuthorizationResourceTypeMismatch");
          else if (needed !== letter) await refused(work, "AuthorizationPermissionMismatch");
          else await work();
        }
      }
    }
  },

  async keyRanges() {
    const owner = await freshTable("ranges");
    const cells = [..."abcd"].flatMap((p) => [..."123"].map((r) => [p, r]));
    for (const [p, r] of cells) await owner.createEntity(row(r, {}, p));
    const bounds = [
      [{ startPartitionKey: "b" }, (c) => c >= "b"],
      [{ endPartitionKey: "b" }, (c) => c < "c"],
      [{ startPartitionKey: "b", startRowKey: "3", endPartitionKey: "c", endRowKey: "2" }, (c) => c >= "b3" && c <= "c2"],
    ];
    for (const [fields, inside] of bounds) {
      const guest = house.guest(owner.tableName, tableSas(owner, fields));
      const listed = (await query(guest)).map((one) => one.partitionKey + one.rowKey);
      assert.deepEqual(listed, cells.map((cell) => cell.join("")).filter(inside), JSON.stringify(fields));
      for (const [p, r] of cells) {
        const works = [() => guest.upsertEntity(row(r, {}, p)), () => guest.updateEntity(row(r, {}, p)), () => guest.submitTransaction([["upsert", row(r, {}, p)]])];
        if (inside(p + r)) {
          await guest.getEntity(p, r);
          for (const work of works) await work();
        } else {
          await fails(404, "ResourceNotFound", () => guest.getEntity(p, r));
          for (const work of [...works, () => guest.deleteEntity(p, r)]) await refused(work, "AuthorizationFailure");
        }
      }
    }
  },

  async storedPolicies() {
    const table = await freshTable("policies");
    await table.createEntity(row("a"));
    assert.equal((await table.getAccessPolicy()).length, 0);
    const guest = house.guest(table.tableName, generateTableSas(table.tableName, house.credential, { identifier: "own" }));
    const own = (permission, start, expiry) => table.setAccessPolicy([{ id: "own", accessPolicy: { permission, start: hours(start), expiry: hours(expiry) } }]);
    await refused(() => query(guest), "AuthenticationFailed");
    await own("r", -1, 1);
    const [policy] = await table.getAccessPolicy();
    assert.equal(policy.id, "own");
    assert.equal(policy.accessPolicy.permission, "r");
    assert.deepEqual(keys(await query(guest)), ["a"]);
    await refused(() => guest.createEntity(row("b")), "AuthorizationPermissionMismatch");
    await own("ra", -1, 1);
    await guest.createEntity(row("b"));
    await own("ra", -2, -1);
    await refused(() => query(guest), "AuthenticationFailed");
    await own("ra", 1, 2);
    await refused(() => query(guest), "AuthenticationFailed");
    await own("ra", -1, 1);
    await table.setAccessPolicy([]);
    await refused(() => query(guest), "AuthenticationFailed");
    const six = Array.from({ length: 6 }, (_, n) => ({ id: `${n}`, accessPolicy: { permission: "r", start: hours(-1), expiry: hours(1) } }));
    await table.setAccessPolicy(six.slice(1));
    await fails(400, "", () => table.setAccessPolicy(six));
    assert.equal((await table.getAccessPolicy()).length, 5, "a refused list changes nothing");
  },

  async whatElseASignatureSays() {
    const table = await freshTable("signed");
    await table.createEntity(row("a"));
    const read = (options) => () => query(house.guest(table.tableName, tableSas(table, options)));
    assert.deepEqual(keys(await read({})()), ["a"]);
    assert.deepEqual(keys(await read({ startsOn: hours(-1) })()), ["a"]);
    assert.deepEqual(keys(await read({ ipRange: { start: "127.0.0.1" } })()), ["a"]);
    assert.deepEqual(keys(await read({ ipRange: { start: "127.0.0.0", end: "127.0.0.9" } })()), ["a"]);
    assert.deepEqual(keys(await read({ protocol: "https,http" })()), ["a"]);
    await refused(read({ expiresOn: hours(-1) }), "AuthenticationFailed");
    await refused(read({ startsOn: hours(1), expiresOn: hours(2) }), "AuthenticationFailed");
    await refused(read({ ipRange: { start: "10.0.0.1" } }), "AuthorizationSourceIPMismatch");
    if (house.style === "tls") assert.deepEqual(keys(await read({ protocol: "https" })()), ["a"]);
    else await refused(read({ protocol: "https" }), "AuthorizationProtocolMismatch");
    const sas = tableSas(table, { permissions: { query: true } });
    for (const bent of [sas.replace("sp=r", "sp=raud"), sas.replace("sig=", "sig=A"), sas.replace("se=20", "se=21")]) {
      assert.notEqual(bent, sas);
      await refused(() => query(house.guest(table.tableName, bent)), "AuthenticationFailed");
    }
    const stranger = new AzureNamedKeyCredential("devstoreaccount1", Buffer.from("wrong".repeat(8)).toString("base64"));
    const strange = generateTableSas(table.tableName, stranger, { expiresOn: hours(1) });
    await refused(() => query(house.guest(table.tableName, strange)), "AuthenticationFailed");
  },

  async tokens() {
    if (house.style !== "tls") return; // The SDK sends tokens over TLS only.
    const owner = await freshTable("bearer");
    await owner.createEntity(row("a"));
    const options = { ...house.options, version: "2020-12-06" };
    const bearer = (claims) => new TableClient(house.endpoint, owner.tableName, new Tokens(claims), options);
    const guest = bearer();
    assert.deepEqual(keys(await query(guest)), ["a"]);
    await guest.createEntity(row("b"));
    await guest.submitTransaction([["upsert", row("c")], ["delete", row("b")]]);
    assert.deepEqual(keys(await query(guest, "PartitionKey eq 'p'")), ["a", "c"]);
    for (const claims of [{ aud: "https://example.com" }, { exp: 1 }, { iss: "https://example.com/" }]) {
      await fails(401, "", () => query(bearer(claims)));
    }
  },

  async statistics() {
    if (house.style !== "host") return; // The SDK finds a secondary by its host's name only.
    const { geoReplication } = await house.service.getStatistics();
    assert.equal(geoReplication.status, "live");
    assert.ok(geoReplication.lastSyncTime);
  },
};
