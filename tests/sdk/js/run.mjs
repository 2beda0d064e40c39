// Microsoft's own JavaScript SDK, unmodified, against the server that the connection string names.
//
//     AZURE_STORAGE_CONNECTION_STRING=… node run.mjs [TEST]...
//
// Every test runs in each style of address: the account in the path, the account in the host's name;
// over TLS where SDK_TLS_PORT says where. Each makes its own table. Exits with 1 where one fails.

import { TESTS as access } from "./access.mjs";
import { TESTS as basics } from "./basics.mjs";
import { all, house, STYLES } from "./house.mjs";
import { TESTS as more } from "./more.mjs";

const only = process.argv.slice(2);
const tests = Object.entries({ ...basics, ...more, ...access }).filter(([name]) => only.length === 0 || only.includes(name));
let passed = 0;
let asked = 0;
for (const [number, style] of STYLES.entries()) {
  house.use(style, number);
  for (const [name, test] of tests) {
    asked += 1;
    const start = performance.now();
    try {
      await test();
      passed += 1;
      console.log(`ok      ${style}: ${name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
    } catch (error) {
      console.log(`FAILED  ${style}: ${name}\n${error.stack}`);
    }
  }
  const filter = `TableName ge '${house.run}' and TableName lt '${house.run}~'`;
  for (const table of await all(house.service.listTables({ queryOptions: { filter } }))) {
    await house.service.deleteTable(table.name);
  }
}
if (!STYLES.includes("tls")) console.log("SKIPPED: TLS, because SDK_TLS_PORT is not set");
console.log(`javascript: ${passed} of ${asked} passed`);
process.exitCode = passed < asked || asked === 0 ? 1 : 0;
