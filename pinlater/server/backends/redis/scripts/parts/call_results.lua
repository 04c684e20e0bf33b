-- Results of calls with an idempotency key: one Redis key each, which Redis expires. It holds the time of expiry by the
-- script's clock, and the result as JSON.
local function find_result(once)
  local stored = once ~= '' and redis.call('GET', prefix .. 'result:' .. once)
  if not stored then
    return nil
  end
  local expires, answer = string.match(stored, '^(%d+) (.*)$')
  return tonumber(expires) > now and cjson.decode(answer) or nil
end

-- Call this last, so that a script that fails halfway stores no result.
local function store_result(once, keep_ms, answer)
  if once ~= '' then
    local expires = string.format('%d', now + keep_ms)
    redis.call('SET', prefix .. 'result:' .. once, expires .. ' ' .. cjson.encode(answer), 'PX', keep_ms)
  end
end
