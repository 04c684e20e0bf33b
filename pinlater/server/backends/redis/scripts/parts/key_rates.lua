-- Keys with a rate. The hash "key_rates" maps the text of a key to its newest rate and to when its next job would be
-- started at an even pace, in epoch microseconds; "job_rates" maps a member to the rate that it was enqueued with. The
-- sorted set "key_rate_looks" says when to check whether a key is still needed. The decisions are those of
-- key_rates.py.
local open_rates
if HAS_SHARED_KEYS or HAS_LINKS then
  -- Returns the functions for the queue whose Redis keys begin with this prefix.
  function open_rates(prefix)
    local rates = {}
    local RATES, LOOKS, TURNS = prefix .. 'key_rates', prefix .. 'key_rate_looks', prefix .. 'turns'
    local PERIODS = {s = 1000000, m = 60000000, h = 3600000000, d = 86400000000}
    local TOGETHER_US, IDLE_MS, FORGOTTEN_AT_ONCE = 50000, 3600000, 2
    local newest, kept, started = {}, {}, {}

    -- Returns the microseconds between two starts, how far they may be ahead of that, and the period.
    local function pace_of(rate)
      local jobs, unit = string.match(rate, '^(%d+)/(%a)$')
      local period = PERIODS[unit]
      local together = math.min(1 + math.floor(jobs * TOGETHER_US / period), jobs)
      local interval = math.ceil(period / (jobs - together + 1))
      return interval, interval * (together - 1), period
    end

    local function starts_at(rate, next_us)
      local _, ahead, period = pace_of(rate)
      return math.ceil(math.min(next_us - ahead, now * 1000 + period) / 1000)
    end

    local function read_rate(text)
      local rate, next_us = string.match(redis.call('HGET', RATES, text) or '', '^(%S+) (%d+)$')
      return rate, tonumber(next_us)
    end

    -- Returns whether a key has a rate, or gets one.
    function rates.has(text)
      return newest[text] or kept[text] or read_rate(text)
    end

    local function put_rate(text, rate, next_us)
      redis.call('HSET', RATES, text, rate .. ' ' .. string.format('%d', next_us))
    end

    -- Deletes some keys that have no unfinished job and were idle for long, so that unneeded ones do not pile up.
    local function forget_some()
      for _, text in ipairs(redis.call('ZRANGEBYSCORE', LOOKS, '-inf', NOW, 'LIMIT', 0, FORGOTTEN_AT_ONCE)) do
        local _, next_us = read_rate(text)
        if (next_us or 0) < (now - IDLE_MS) * 1000
          and redis.call('ZLEXCOUNT', TURNS, '[' .. text .. '\0', '(' .. text .. '\1') == 0 then
          redis.call('HDEL', RATES, text)
          redis.call('ZREM', LOOKS, text)
        else
          redis.call('ZADD', LOOKS, string.format('%d', now + IDLE_MS), text)
        end
      end
    end

    -- Records the rate of a job that is enqueued, or that has come back; in the latter case, a rate that its key
    -- already has stays.
    function rates.note(text, rate, is_back)
      if is_back then
        kept[text] = kept[text] or rate
      else
        newest[text] = rate
      end
    end

    -- Records that a job of a key was claimed.
    function rates.note_start(text)
      started[text] = (started[text] or 0) + 1
    end

    -- Applies what was recorded about a key. Returns when its next job may be started, nil if it has no rate; and if
    -- the rate has changed, the time until which the previous one held its jobs.
    function rates.settle(text)
      local rate, next_us = read_rate(text)
      local new, number, held_until = newest[text] or not rate and kept[text], started[text], nil
      newest[text], kept[text], started[text] = nil, nil, nil
      if not rate and not new then
        return nil
      end
      if not rate then
        forget_some()
        rate, next_us = new, 0
        redis.call('ZADD', LOOKS, string.format('%d', now + IDLE_MS), text)
        put_rate(text, rate, next_us)
      elseif new and new ~= rate then
        held_until = starts_at(rate, next_us)
        next_us = next_us > 0 and next_us - pace_of(rate) + pace_of(new) or 0
        rate = new
        put_rate(text, rate, next_us)
      end
      if number then
        next_us = math.max(next_us, now * 1000) + number * pace_of(rate)
        put_rate(text, rate, next_us)
      end
      return starts_at(rate, next_us), held_until
    end
    return rates
  end
end
