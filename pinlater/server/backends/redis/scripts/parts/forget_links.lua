-- Takes a job off the set of children of its parent if that is on another shard, since nobody deletes that set; see
-- inboxes.lua. The job's record may be gone, so this removes its address with each priority.
local function leave_distant_parent(at, member, parent)
  local distant = string.match(parent, '^[^: ]+:%S+ %d+ %d+')
  if distant then
    local shard, queue = string.match(at, '^([^{]*{[^:}]*):([^}]*)}')
    local addresses = {}
    for priority = 1, 127 do
      addresses[priority] = queue .. ' ' .. priority .. ' ' .. string.sub(member, 2)
    end
    redis.call('SREM', shard .. '}:children:' .. distant, unpack(addresses))
  end
end

-- Deletes the links of jobs that are going to be deleted, and their inboxes and sets of children. Takes those that are
-- still in the set of a parent on another shard off it; see links.lua.
local function forget_links(at, members)
  for place, packed in ipairs(read_fields(at .. 'links', members)) do
    local link = packed and cmsgpack.unpack(packed) or {}
    if link.k then
      local member = members[place]
      redis.call('UNLINK', at .. 'inbox:' .. member, at .. 'successes:' .. member, at .. 'children:' .. member)
    end
    if link.l then
      leave_distant_parent(at, members[place], link.p)
    end
  end
  call_in_chunks('HDEL', at .. 'links', members)
end
