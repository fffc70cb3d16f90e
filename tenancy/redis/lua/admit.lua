-- Takes what a request asks for from all of its buckets, or from none.

local till = lease(q.sid)
if bad then return {'bad', now, bad} end
if till <= now then
	if not q.fresh then return {'lost', now} end
	till = now + q.lease
	leases[q.sid] = till
else
	q.fresh = nil
end
if redis.call('EXISTS', KEYS[3]) == 1 then return {'cancelled', now} end
local again = redis.pcall('HEXISTS', KEYS[2], q.id)
if type(again) == 'table' then return {'bad', now, KEYS[2]} end

-- full reports whether too much is under way, or spent.
local function full(e, b)
	local n, money, tokens = running(e)
	if b.c > 0 and n >= b.c then return true end
	local g = b.g
	if not g or not g.h then return false end
	local m, t = spent(e)
	return g.m > 0 and g.dm > 0 and m + money + g.dm > g.m or g.t > 0 and g.dt > 0 and t + tokens + g.dt > g.t
end

local entries, starts, ends, softs, refused = {}, {}, {}, {}, false
for i, b in ipairs(q.b) do
	local e = open(KEYS[i + 3])
	if not e then return {'bad', now, bad} end
	if b.g then
		local start, oldest, after = step(b.g)
		if not start then return {'stale', now} end
		starts[i], ends[i] = start, after
		advance(e, oldest)
	end
	softs[i] = reap(e, b.g, starts[i])
	if bad then return {'bad', now, bad} end
	for _, a in ipairs(b.r) do
		local r = rate(e, a[1], a[2], a[3])
		if a[8] > 0 then
			local till, part = r[1], r[2]
			if till < now then till, part = now, 0 end
			local us = till - now + a[4] - a[6]
			part = part + a[5] - a[7]
			if part < 0 then us, part = us - 1, part + a[3] end
			if part >= a[3] then us, part = us + 1, part - a[3] end
			if us > 0 or us == 0 and part > 0 then refused = true end
		end
	end
	if full(e, b) then
		softs[i] = math.max(softs[i], reap(e, b.g, starts[i], true))
		if bad then return {'bad', now, bad} end
		refused = refused or full(e, b)
	end
	entries[i] = e
end

local out = {refused and 'no' or 'yes', now}
if refused or again == 1 then -- a retry of what was done changes nothing
	for i, e in ipairs(entries) do out[#out + 1] = state(e, q.b[i], 0) end
	if again == 1 then out[1] = 'yes' end
	return out
end

local record = {}
for i, e in ipairs(entries) do
	local b, loans = q.b[i], {}
	for k, a in ipairs(b.r) do
		local r = rate(e, a[1], a[2], a[3])
		take(r, a[4], a[5])
		loans[k] = {r[3], r[1], r[2]}
	end
	record[i] = loans
	if b.t then
		local s = e[SESSIONS][q.sid]
		if not s then
			s = {0, 0, 0}
			e[SESSIONS][q.sid] = s
			if e[CHECK] == 0 or e[CHECK] > till then e[CHECK] = till end
		end
		s[1] = s[1] + 1
		if b.g then s[2], s[3] = math.min(s[2] + b.g.dm, MOST), math.min(s[3] + b.g.dt, MOST) end
	end
	save(KEYS[i + 3], e, b, ends[i])
	out[#out + 1] = state(e, b, softs[i])
end
redis.call('HSET', KEYS[2], q.id, cmsgpack.pack(record))
redis.call('PEXPIREAT', KEYS[2], millis(till + q.lease)) -- it may be new: Redis drops an empty one
if q.fresh then
	redis.call('ZADD', KEYS[1], whole(till), q.sid)
	redis.call('PEXPIREAT', KEYS[1], millis(now + 86400000000))
end
return out
