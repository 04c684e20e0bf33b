-- Reads this server's clock, in epoch milliseconds with a fraction, and the value of KEYS[1]; false if it does not
-- exist.
-- standalone
local time = redis.call('TIME')
return {string.format('%.3f', time[1] * 1000 + time[2] / 1000), redis.call('GET', KEYS[1])}
