-- Deletes the links of jobs that are going to be deleted, and their inboxes and sets of children.
local function forget_links(at, members)
  for place, packed in ipairs(read_fields(at .. 'links', members)) do
    if packed and cmsgpack.unpack(packed).k then
      redis.call('UNLINK', at .. 'inbox:' .. members[place], at .. 'children:' .. members[place])
    end
  end
  call_in_chunks('HDEL', at .. 'links', members)
end
