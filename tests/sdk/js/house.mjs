// What the tests share: the server under its present address, and small helpers.

import assert from "node:assert/strict";
import dns from "node:dns";
import { readFileSync } from "node:fs";
import { AzureNamedKeyCredential, AzureSASCredential, TableClient, TableServiceClient } from "@azure/data-tables";

const CONNECTION = process.env.AZURE_STORAGE_CONNECTION_STRING;
const ACCOUNT = "devstoreaccount1";
const KEY = /AccountKey=([^;]+)/.exec(CONNECTION)[1];
const PORT = /TableEndpoint=http:\/\/[^;]*?:(\d+)/.exec(CONNECTION)[1];

export const CASES = JSON.parse(readFileSync(new URL("../cases.json", import.meta.url), "utf8"));

// Names below `localhost` are this machine's, whether or not its resolver knows that.
const foundBySystem = dns.lookup;
dns.lookup = (name, ...rest) => foundBySystem(name.endsWith(".localhost") ? "127.0.0.1" : name, ...rest);

export const STYLES = ["path", "host", ...(process.env.SDK_TLS_PORT ? ["tls"] : [])];

/** The server as a client sees it in one style of address. */
export const house = {
  credential: new AzureNamedKeyCredential(ACCOUNT, KEY),

  use(style, number) {
    const port = style === "tls" ? process.env.SDK_TLS_PORT : PORT;
    const scheme = style === "tls" ? "https" : "http";
    this.style = style;
    this.endpoint = style === "host" ? `${scheme}://${ACCOUNT}.table.localhost:${port}` : `${scheme}://127.0.0.1:${port}/${ACCOUNT}`;
    this.connection = `DefaultEndpointsProtocol=${scheme};AccountName=${ACCOUNT};AccountKey=${KEY};TableEndpoint=${this.endpoint}`;
    this.options = { allowInsecureConnection: scheme === "http", retryOptions: { maxRetries: 0 } };
    this.service = TableServiceClient.fromConnectionString(this.connection, this.options);
    this.run = `js${Date.now().toString(16)}${number}`;
  },

  client(name) {
    return TableClient.fromConnectionString(this.connection, name, this.options);
  },

  /** A client of a table that has nothing but a shared access signature. */
  guest(name, sas) {
    return new TableClient(this.endpoint, name, new AzureSASCredential(sas), this.options);
  },
};

export async function freshTable(name) {
  await house.service.createTable(house.run + name);
  return house.client(house.run + name);
}

export async function all(items) {
  const out = [];
  for await (const item of items) out.push(item);
  return out;
}

export const keys = (entities) => entities.map((entity) => entity.rowKey);
export const row = (rowKey, properties = {}, partitionKey = "p") => ({ partitionKey, rowKey, ...properties });
export const query = (table, filter, select) =>
  all(table.listEntities({ queryOptions: { ...(filter && { filter }), ...(select && { select }) } }));

/** An entity without what the service adds. */
export function plain(entity) {
  const { etag, timestamp, "odata.metadata": metadata, ...rest } = entity;
  assert.ok(etag);
  return rest;
}

/** The error of `work`, checked for its status and, where given, its code: one, or one of several. */
export async function fails(statusCode, code, work) {
  try {
    await work();
  } catch (error) {
    const found = error.code ?? error.details?.odataError?.code;
    assert.equal(error.statusCode, statusCode, `${error.message}`);
    const wanted = [code].flat().filter((one) => one);
    const fits = wanted.length === 0 || wanted.some((one) => found === one || error.message.includes(one));
    assert.ok(fits, `${found} instead of ${wanted}: ${error.message}`);
    return error;
  }
  throw new assert.AssertionError({ message: `a failure with ${statusCode} ${code} was expected` });
}
