-- Keeps the groups of failures, as far as there is room for them. budget: {most groups of the queue, id of the group of
-- other errors with its facts, how often the time of the last failure is written, in ms, when a group is looked at for the first time,
-- in ms}; groups: {id = {class, error, example, whether there is always room}}. Returns the group to put jobs into for each id.
local function keep_groups(budget, groups)
  local most, others, noted_every, first_look = unpack(budget)
  local kept, count = {}, nil

  local function keep(group, facts, has_room)
    local last = redis.call('ZSCORE', prefix .. 'failed_last', group)
    if not last then
      count = count or redis.call('ZCARD', prefix .. 'failed_last')
      if not has_room and count >= most then
        return false
      end
      count = count + 1
      redis.call('HSET', prefix .. 'failures', group, cmsgpack.pack({facts[1], facts[2], facts[3], NOW}))
      redis.call('ZADD', SHARD .. '}:earliest:failures', 'NX', now + first_look, QUEUE)
    end
    if not last or now - last >= noted_every then
      redis.call('ZADD', prefix .. 'failed_last', NOW, group)
    end
    return true
  end

  for group, facts in pairs(groups) do
    if keep(group, facts, facts[4]) then
      kept[group] = group
    else
      kept[group] = others[1]
      keep(others[1], others[2], true)
    end
  end
  return kept
end
