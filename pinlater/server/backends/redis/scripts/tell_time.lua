-- What this server's own clock shows, in epoch milliseconds with a fraction, and what KEYS[1] has; false if that is not there.
-- alone
local time = redis.call('TIME')
return {string.format('%.3f', time[1] * 1000 + time[2] / 1000), redis.call('GET', KEYS[1])}
