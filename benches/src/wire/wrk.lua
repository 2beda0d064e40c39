-- What wrk sends, after a head that sets `requests`, `base` and `transactions`: the requests in turn,
-- each with a number of its own between its parts. Afterwards one line that wrk.rs reads.

local at = 0
failed = 0 -- wrk reads it by name when a thread has ended.

function request()
  at = at % #requests + 1
  local parts = requests[at]
  if #parts == 1 then
    return parts[1]
  end
  base = base + 1
  return table.concat(parts, string.format("%012d", base))
end

-- Only where an answer that says yes may hold one that says no: looking costs the client time.
if transactions then
  function response(status, headers, body)
    if body:find("HTTP/1.1 4", 1, true) or body:find("HTTP/1.1 5", 1, true) then
      failed = failed + 1
    end
  end
end

local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
end

function done(summary, latency)
  local refused = summary.errors.status
  for _, thread in ipairs(threads) do
    refused = refused + thread:get("failed")
  end
  local errors = summary.errors
  local broken = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format("RESULT %d %d %d %d %d %d %d\n", summary.requests, summary.duration,
    summary.bytes, broken, refused, latency:percentile(50), latency:percentile(99)))
end
