-- What all scripts begin with. Times are whole microseconds since 1970, of this server;
-- every number is whole and less than 2^53, which is what a Lua number holds exactly.
--
-- KEYS[1] the sessions' leases, KEYS[2] the session's open reservations, KEYS[3] whether
-- the reservation was cancelled, KEYS[4] and so on the buckets.

local q = cjson.decode(ARGV[1])
local now = q.now
if not now then
	local t = redis.call('TIME')
	now = tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local MOST = 9007199254740992 -- 2^53
local FAR = 3000000000000000 -- 95 years

-- A bucket is an array of these.
local VERSION, AT, RATES, SESSIONS, CHECK, STEPS, TOLD = 1, 2, 3, 4, 5, 6, 7

local bad -- a key whose value isn't ours

local function whole(n) return string.format('%.0f', n) end

local function millis(us) return whole(math.ceil(us / 1000)) end

-- open reads a bucket. If the clock was set back, the bucket goes back with it: what is
-- missing from it stays missing, and no more.
local function open(key)
	local raw = redis.pcall('GET', key)
	if type(raw) == 'table' then
		bad = key
		return nil
	end
	if not raw then return {1, now, {}, {}, 0, {}, 0} end
	local ok, e = pcall(cmsgpack.unpack, raw)
	if not ok or type(e) ~= 'table' or e[VERSION] ~= 1 or type(e[AT]) ~= 'number' or type(e[TOLD]) ~= 'number' then
		bad = key
		return nil
	end
	if e[AT] > now then
		for _, r in pairs(e[RATES]) do r[1] = r[1] - (e[AT] - now) end
		e[CHECK] = 0
	end
	e[AT] = now
	return e
end

-- rate is the state of one rate: when it is full, in microseconds and in parts of which
-- there are per to one, when it was last found full, and its pace, num and per.
local function rate(e, m, num, per)
	local r = e[RATES][m + 1]
	if not r then
		r = {0, 0, 0, num, per}
		e[RATES][m + 1] = r
	elseif r[4] ~= num or r[5] ~= per then
		-- Another pace: it is full when it was to be, and gives nothing back of before.
		if r[2] > 0 then r[1], r[2] = r[1] + 1, 0 end
		r[3], r[4], r[5] = now, num, per
	end
	return r
end

local function take(r, us, part)
	if r[1] < now then r[1], r[2], r[3] = now, 0, now end
	us, part = r[1] + us, r[2] + part
	if part >= r[5] then us, part = us + 1, part - r[5] end
	r[1], r[2] = math.min(us, now + FAR), part
end

-- put gives back of a loan, which has when the rate was last found full and when it was to
-- be so: but for what has been refilled already.
local function put(r, us, part, loan)
	local left = loan[2] - now
	if r[3] ~= loan[1] or left < 0 then return end
	if us > left or us == left and part > loan[3] then us, part = left, loan[3] end
	if r[2] < part then
		r[2], us = r[2] + r[5] - part, us + 1
	else
		r[2] = r[2] - part
	end
	r[1] = r[1] - us
end

-- step is when the budget's period of now began, from when on what was spent counts, and
-- when the next begins; nothing if the router's idea of the time is too wrong.
local function step(g)
	local p = g.p
	if now < p[2] or now >= p[5] then return nil end
	if now < p[4] then return p[2], p[1], p[4] end
	return p[4], p[3], p[5]
end

local function advance(e, oldest)
	local steps = e[STEPS]
	while #steps > 0 and steps[1][1] < oldest do table.remove(steps, 1) end
	if #steps == 0 then e[TOLD] = 0 end
end

local function spent(e)
	local money, tokens = 0, 0
	for _, s in ipairs(e[STEPS]) do money, tokens = money + s[2], tokens + s[3] end
	return math.min(money, MOST), math.min(tokens, MOST)
end

local function reached(sum, limit, at) return limit > 0 and at <= 100 and sum * 100 >= limit * at end

-- spend returns 1 if that reaches the soft limit for the first time.
local function spend(e, g, start, money, tokens)
	if money == 0 and tokens == 0 then return 0 end
	local steps = e[STEPS]
	local last = steps[#steps]
	if last and last[1] >= start then
		last[2], last[3] = math.min(last[2] + money, MOST), math.min(last[3] + tokens, MOST)
	else
		steps[#steps + 1] = {start, money, tokens}
	end
	if e[TOLD] == 1 then return 0 end
	local m, t = spent(e)
	if reached(m, g.m, g.s) or reached(t, g.t, g.s) then
		e[TOLD] = 1
		return 1
	end
	return 0
end

local leases = {}

local function lease(session)
	local till = leases[session]
	if not till then
		till = redis.pcall('ZSCORE', KEYS[1], session)
		if type(till) == 'table' then
			bad = KEYS[1]
			till = 0
		end
		till = tonumber(till or 0)
		leases[session] = till
	end
	return till
end

-- reap books what sessions had under way that have ended: as spent. It looks when a lease
-- may have ended, or when it must.
local function reap(e, g, start, must)
	local soft = 0
	if next(e[SESSIONS]) == nil or now < e[CHECK] and not must then return soft end
	local check = now + FAR
	for session, s in pairs(e[SESSIONS]) do
		local till = lease(session)
		if till <= now then
			e[SESSIONS][session] = nil
			if g then soft = math.max(soft, spend(e, g, start, s[2], s[3])) end
		else
			check = math.min(check, till)
		end
	end
	e[CHECK] = check
	return soft
end

local function running(e)
	local n, money, tokens = 0, 0, 0
	for _, s in pairs(e[SESSIONS]) do n, money, tokens = n + s[1], money + s[2], tokens + s[3] end
	return n, math.min(money, MOST), math.min(tokens, MOST)
end

-- save writes a bucket, to be forgotten when it is as good as new.
local function save(key, e, b, ends)
	local till = now
	for _, r in pairs(e[RATES]) do till = math.max(till, r[1]) end
	if next(e[SESSIONS]) ~= nil then till = math.max(till, now + b.k) end
	if b.g and #e[STEPS] > 0 then
		till = math.max(till, ends)
		if b.g.w > 0 then till = math.max(till, now + b.g.w) end
	end
	redis.call('SET', key, cmsgpack.pack(e), 'PXAT', millis(till + 1000000))
end

-- state is a bucket as the router reads it.
local function state(e, b, soft)
	local n, money, tokens = running(e)
	local out = {n, money, tokens, soft}
	for _, a in ipairs(b.r) do
		local r = e[RATES][a[1] + 1]
		if not r or r[1] < now then
			out[#out + 1], out[#out + 2] = -1, 0
		else
			out[#out + 1], out[#out + 2] = r[1] - now, r[2]
		end
	end
	for _, s in ipairs(e[STEPS]) do
		out[#out + 1], out[#out + 2], out[#out + 3] = s[1], s[2], s[3]
	end
	return out
end
