-- Returns what ties jobs to others, as the hash "links" has it, with their parents added; see links.lua.
local function read_links(members)
  local found, family_of = read_fields(prefix .. 'links', members), HAS_LINKS and open_families(prefix)
  for at, member in ipairs(family_of and members or {}) do
    local family, id = family_of(member)
    if family then
      local link = found[at] and cmsgpack.unpack(found[at]) or {}
      link.p = family.address .. ' ' .. position_in(family, id) .. ' ' .. family.name
      found[at] = cmsgpack.pack(link)
    end
  end
  return found
end
