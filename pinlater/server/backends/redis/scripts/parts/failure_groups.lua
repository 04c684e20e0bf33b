-- Records failures in their groups, as far as there is room for these. budget: {most groups of the queue, {id of the
-- group of other errors, its facts}, shortest time in ms between two updates of a group's last failure, time in ms
-- after which a group is first checked}; groups: {id = {class, error, example, whether there is always room}}. Returns
-- for each id the group to put jobs into.
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
