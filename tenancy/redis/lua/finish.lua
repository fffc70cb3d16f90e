-- Ends a reservation, once: replaces what it reserved by what was used.

local till = lease(q.sid)
if bad then return {'bad', now, bad} end
-- The request for the reservation, or another copy of it, may still be on its way to us.
if q.cancel then redis.call('SET', KEYS[3], '1', 'PXAT', millis(now + q.lease)) end
local raw = false
if till > now then
	raw = redis.pcall('HGET', KEYS[2], q.id)
	if type(raw) == 'table' then return {'bad', now, KEYS[2]} end
end
if not raw then return {till > now and 'none' or 'lost', now} end
local record = cmsgpack.unpack(raw)

local entries, ends, softs = {}, {}, {}
for i, b in ipairs(q.b) do
	local e = open(KEYS[i + 3])
	if not e then return {'bad', now, bad} end
	local start, oldest
	if b.g then
		start, oldest, ends[i] = step(b.g)
		if not start then return {'stale', now} end
		advance(e, oldest)
	end
	softs[i] = reap(e, b.g, start)
	for k, a in ipairs(b.r) do
		local r = rate(e, a[1], a[2], a[3])
		if a[6] > 0 then
			take(r, a[4], a[5])
		elseif a[6] < 0 then
			put(r, a[4], a[5], record[i][k])
		end
	end
	if b.t then
		local s = e[SESSIONS][q.sid]
		if s then
			s[1] = s[1] - 1
			if b.g then s[2], s[3] = math.max(s[2] - b.g.rm, 0), math.max(s[3] - b.g.rt, 0) end
			if s[1] <= 0 then e[SESSIONS][q.sid] = nil end
		end
		if b.g then softs[i] = math.max(softs[i], spend(e, b.g, start, b.g.dm, b.g.dt)) end
	end
	entries[i] = e
end

local out = {'yes', now}
for i, e in ipairs(entries) do
	save(KEYS[i + 3], e, q.b[i], ends[i])
	if softs[i] == 1 then
		local s = state(e, q.b[i], 1)
		s[#s + 1] = i
		out[#out + 1] = s
	end
end
redis.call('HDEL', KEYS[2], q.id)
return out
