-- Prolongs a session's lease, or ends it: then nothing of it is under way any more.

local till = lease(q.sid)
if bad then return {'bad', now, bad} end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', whole(now))
if till <= now then return {'lost', now} end
if q.cancel then
	redis.call('ZREM', KEYS[1], q.sid)
	redis.call('DEL', KEYS[2])
	return {'yes', now}
end
redis.call('ZADD', KEYS[1], whole(now + q.lease), q.sid)
redis.call('PEXPIREAT', KEYS[1], millis(now + 86400000000))
redis.call('PEXPIREAT', KEYS[2], millis(now + 2 * q.lease))
return {'yes', now}
