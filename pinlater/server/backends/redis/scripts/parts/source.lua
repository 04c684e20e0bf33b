-- The source part of a claim descriptor, <host>:<port>:<server start>:<source>:<counter>; it may have colons of its own.
local function source_of(claim)
  local rest = string.match(claim, '^[^:]*:[^:]*:[^:]*:(.*)$')
  return rest and string.match(rest, '^(.*):[^:]*$') or ''
end
