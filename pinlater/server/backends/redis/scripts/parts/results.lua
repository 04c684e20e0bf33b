-- What calls with an idempotency key have answered: a key of its own for each, which Redis lets go of by itself. It holds
-- when it expires by the script's clock, and the answer as JSON.
local function recall(once)
  local kept = once ~= '' and redis.call('GET', prefix .. 'result:' .. once)
  if not kept then
    return nil
  end
  local expires, answer = string.match(kept, '^(%d+) (.*)$')
  return tonumber(expires) > now and cjson.decode(answer) or nil
end

-- Comes last: should a script fail half-way, what it did not do is not remembered as done.
local function keep(once, keep_ms, answer)
  if once ~= '' then
    local expires = string.format('%d', now + keep_ms)
    redis.call('SET', prefix .. 'result:' .. once, expires .. ' ' .. cjson.encode(answer), 'PX', keep_ms)
  end
end
