-- For scripts that need to know of the features of a queue only whether jobs have links or parents.
local HAS_LINKS = redis.call('EXISTS', prefix .. 'links', prefix .. 'families') > 0
