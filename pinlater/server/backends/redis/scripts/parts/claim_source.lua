-- Returns the source in a claim descriptor, <host>:<port>:<server start>:<source>:<counter>; it may contain colons.
local function source_of(claim)
  local rest = string.match(claim, '^[^:]*:[^:]*:[^:]*:(.*)$')
  return rest and string.match(rest, '^(.*):[^:]*$') or ''
end
