-- Deletes the links of jobs that are going to be deleted, and their inboxes and sets of children. Takes those that are
-- still in the set of a parent on another shard off it, since nobody deletes that set; see links.lua and inboxes.lua.
local function forget_links(at, members)
  local shard, queue = string.match(at, '^([^{]*{[^:}]*):([^}]*)}')
  for place, packed in ipairs(read_fields(at .. 'links', members)) do
    local link = packed and cmsgpack.unpack(packed) or {}
    if link.k then
      redis.call('UNLINK', at .. 'inbox:' .. members[place], at .. 'children:' .. members[place])
    end
    local distant = link.l and string.match(link.p, '^[^: ]+:%S+ %d+ %d+')
    if distant then
      local addresses = {} -- one for each priority: the job's record may be gone
      for priority = 1, 127 do
        addresses[priority] = queue .. ' ' .. priority .. ' ' .. string.sub(members[place], 2)
      end
      redis.call('SREM', shard .. '}:children:' .. distant, unpack(addresses))
    end
  end
  call_in_chunks('HDEL', at .. 'links', members)
end
