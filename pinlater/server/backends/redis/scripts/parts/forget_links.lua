-- Takes a job off the set of children of its parent if that is on another shard, since nobody deletes that set; see
-- inboxes.lua. The job's record may be gone, so this removes its address with each priority.
local function leave_distant_parent(at, member, family)
  local distant = family and string.match(family.address, '^[^: ]+:%S+ %d+ %d+') -- Redis may have evicted the family
  if distant then
    local shard, queue = string.match(at, '^([^{]*{[^:]*):([^}]*)}')
    local addresses = {}
    for priority = 1, 127 do
      addresses[priority] = queue .. ' ' .. priority .. ' ' .. string.sub(member, 2)
    end
    redis.call('SREM', shard .. '}:children:' .. distant, unpack(addresses))
  end
end

-- Deletes the links of jobs that are going to be deleted, and their inboxes and sets of children. Takes those that are
-- themselves in the set of a parent on another shard off it; see links.lua.
local function forget_links(at, members)
  local family_of = open_families(at)
  for place, packed in ipairs(read_fields(at .. 'links', members)) do
    local link, member = packed and cmsgpack.unpack(packed) or {}, members[place]
    if link.k then
      redis.call('UNLINK', at .. 'inbox:' .. member, at .. 'successes:' .. member, at .. 'children:' .. member)
    end
    if link.l then
      leave_distant_parent(at, member, family_of(member))
    end
  end
  call_in_chunks('HDEL', at .. 'links', members)
end

-- Deletes the families of jobs of this queue that are deleted, unless some of their jobs are left; call it after
-- linked.tell().
local function forget_families(members)
  local family_of, reduced = open_families(prefix), {}
  for _, member in ipairs(members) do
    local family = family_of(member)
    if family then
      reduced[family] = true
    end
  end
  for family in pairs(reduced) do
    if not has_jobs_left(prefix, family) then
      redis.call('ZREMRANGEBYSCORE', prefix .. 'families', family.last, family.last)
    end
  end
end
